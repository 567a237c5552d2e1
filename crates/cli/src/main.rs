//! arles
fn main() {}
