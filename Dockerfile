# The hub: by itself one process, SQLite and a folder under /data; with docker-compose.yml also the rest.
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY sdk sdk
COPY hub_server hub_server
COPY migrations migrations
RUN pip wheel --no-cache-dir --wheel-dir /wheels '.[hub,postgres,s3]'

FROM python:3.12-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels 'strop[hub,postgres,s3]' \
    && useradd --system --create-home hub \
    && install --directory --owner hub /data
USER hub
VOLUME /data
EXPOSE 8000
ENV STROP_HUB_DATA=/data STROP_HUB_HOST=0.0.0.0 STROP_HUB_PORT=8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/readyz')"]
ENTRYPOINT ["strop"]
CMD ["hub", "serve"]
