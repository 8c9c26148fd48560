# The program `spindle`, for `spindle agent` as a sidecar. Build it from the root of the repository:
#
#     docker build --file deploy/agent.Dockerfile --tag spindle .
#
# This file has never been built: no machine of the gate has Docker.
FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo build --locked --release --package spindle-cli --bin spindle --no-default-features

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /source/target/release/spindle /usr/local/bin/spindle
ENTRYPOINT ["/usr/local/bin/spindle"]
