"""Runs the migrations in the transaction that `Database.migrate` has begun."""

from alembic import context

from glassbox.catalogue.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
