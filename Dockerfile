# The image of `toolcast serve`. Two ways to the same last stage:
#
#   docker build -t toolcast .                                   # compiles, with the `dist` profile
#   docker build -t toolcast --build-arg SOURCE=outside .        # takes dist/toolcast, built outside for glibc 2.36 or older
#
# `scripts/image` does the second without Docker.

# Where the binary comes from: `build` or `outside`.
ARG SOURCE=build
ARG BASE=debian:bookworm-slim

FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
# The caches survive between builds, so the binary is copied out of them in the same step.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --profile dist --bin toolcast \
    && cp target/dist/toolcast /toolcast

FROM scratch AS outside
ARG BINARY=dist/toolcast
COPY ${BINARY} /toolcast

FROM ${SOURCE} AS binary

FROM ${BASE}
# Certificates of public authorities, for requests to https servers.
RUN test -e /etc/ssl/certs/ca-certificates.crt \
    || { apt-get update \
        && apt-get install -y --no-install-recommends ca-certificates \
        && rm -rf /var/lib/apt/lists/*; }
RUN useradd --uid 10001 --user-group --home-dir /data --no-create-home --shell /usr/sbin/nologin toolcast \
    && install -d -m 700 -o toolcast -g toolcast /data
COPY --chmod=755 deploy/healthy /usr/local/bin/healthy
COPY --from=binary --chmod=755 /toolcast /usr/local/bin/toolcast

# By number, so that a cluster can see that it is not root.
USER 10001:10001
WORKDIR /data
# The SQLite file and its key. With PostgreSQL nothing is written here.
VOLUME /data
ENV TOOLCAST_LISTEN=0.0.0.0:8080 \
    DATABASE_URL=sqlite:///data/toolcast.db
EXPOSE 8080
# Alive, not ready: a container is not restarted because its database is away.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 CMD ["healthy"]
# Streams end with a reconnect hint and the process is gone within 2 s.
STOPSIGNAL SIGTERM
ENTRYPOINT ["toolcast"]
CMD ["serve"]
