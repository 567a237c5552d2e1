//! Linear programs. Never heard of a GPU.
