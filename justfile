# The daily commands. Each is one line, so that it can be typed where `just` isn't installed.

set shell := ["bash", "-euo", "pipefail", "-c"]

# Everything that must hold before a commit.
default: quick

# Before each commit: the tests of the packages that differ from main and of all that is built on them.
quick: format lint
    .ci/changed | xargs --no-run-if-empty cargo test --quiet
    cargo model --quick
    cargo simulate --seconds 30

# Before a review.
check: format lint test
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

format:
    cargo fmt --all

lint:
    cargo lint

test:
    cargo test --workspace

# The demonstration.
demo:
    cargo run --example failover

# The protocol in every small world, and fleets of the lock in virtual time.
explore:
    cargo model
    cargo simulate

# Each deliberate bug and who noticed (`just mutants --only TEXT`, `just mutants --changed`).
mutants *options:
    cargo run --quiet -p spindle-mutants -- {{ options }}

# Chaos runs: locks and fleets in real processes (`just chaos --shards 64`); what is left is in target/chaos/.
chaos *options:
    cargo chaos {{ options }}

# Google's clients in four languages, on the embedded Spanner.
clients:
    crates/emulator/tests/clients/run

bench:
    cargo bench

doc:
    cargo doc --workspace --no-deps --open

# The gate, as it runs for every change.
ci:
    .ci/run
