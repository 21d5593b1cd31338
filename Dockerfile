# One image for every role: `docker run glassbox worker ROLE`. Target `base` holds the base install, without torch.
FROM python:3.12-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/venv
COPY requirements/bootstrap.txt requirements/base.txt requirements/
RUN /opt/venv/bin/pip install --no-cache-dir --require-hashes -r requirements/bootstrap.txt \
    && /opt/venv/bin/uv pip install --python /opt/venv/bin/python --no-cache --compile-bytecode \
       --require-hashes -r requirements/base.txt
# After the libraries, so that a change to our source leaves their layer alone.
COPY . .
RUN /opt/venv/bin/uv pip install --python /opt/venv/bin/python --no-cache --compile-bytecode \
    --no-deps --no-build-isolation .

FROM python:3.12-slim-bookworm AS base
COPY --from=build /opt/venv /opt/venv
RUN useradd --uid 10001 --create-home glassbox && install -d -o glassbox /data
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 GLASSBOX_DATA_DIR=/data
USER 10001
WORKDIR /home/glassbox
VOLUME /data
ENTRYPOINT ["glassbox"]
CMD ["--help"]
