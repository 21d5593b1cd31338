# One image for every role: `docker run glassbox worker ROLE`. Target `cpu` has what every role needs, without torch;
# target `gpu` has the models too, for the workers that run them themselves (calibration, structure).
FROM python:3.12-slim-bookworm AS tools
WORKDIR /src
RUN python -m venv /opt/venv
COPY requirements/bootstrap.txt requirements/
RUN /opt/venv/bin/pip install --no-cache-dir --require-hashes -r requirements/bootstrap.txt
ENV UV_PYTHON=/opt/venv/bin/python UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1

# Our source comes after the libraries, so that a change to it leaves their layer alone.
FROM tools AS build-cpu
COPY requirements/cpu.txt requirements/
RUN /opt/venv/bin/uv pip install --require-hashes -r requirements/cpu.txt
COPY . .
RUN /opt/venv/bin/uv pip install --no-deps --no-build-isolation .

FROM tools AS build-gpu
COPY requirements/gpu.txt requirements/
RUN /opt/venv/bin/uv pip install --require-hashes -r requirements/gpu.txt
COPY . .
RUN /opt/venv/bin/uv pip install --no-deps --no-build-isolation .

# Runs as nobody in particular on a root file system that is read only: what is written goes to /data and /tmp.
FROM python:3.12-slim-bookworm AS runtime
RUN useradd --uid 10001 --create-home glassbox && install -d -o glassbox /data /models
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 GLASSBOX_DATA_DIR=/data
USER 10001
WORKDIR /home/glassbox
VOLUME /data
ENTRYPOINT ["glassbox"]
CMD ["--help"]

# The libraries of CUDA come as wheels; the driver is the host's, by the NVIDIA container toolkit.
FROM runtime AS gpu
COPY --from=build-gpu /opt/venv /opt/venv
ENV HF_HOME=/models
VOLUME /models

FROM runtime AS cpu
COPY --from=build-cpu /opt/venv /opt/venv
