# The daily commands. Each is one line, so that it can be typed where `just` isn't installed.

# Everything that must hold before a commit.
default: format lint test

format:
    cargo fmt --all

lint:
    cargo lint

test:
    cargo test --workspace

# The demonstration.
demo:
    cargo run --example failover

# The lock hunted in real processes; what is left is in target/chaos/.
chaos:
    cargo chaos

bench:
    cargo bench

doc:
    cargo doc --workspace --no-deps --open

# The gate, as it runs for every change.
ci:
    .ci/run
