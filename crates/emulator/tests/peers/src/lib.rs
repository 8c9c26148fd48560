//! Clients that others wrote, on the emulator. All there is to it are the tests.
