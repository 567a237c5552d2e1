//! `arles allocate`
