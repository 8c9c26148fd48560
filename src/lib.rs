//! Distributed lock and leader election on Cloud Spanner, with fencing tokens.
