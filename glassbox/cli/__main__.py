"""`python -m glassbox.cli`: the command without its script, as the supervisor starts the roles."""

from glassbox.cli.main import main

main()
