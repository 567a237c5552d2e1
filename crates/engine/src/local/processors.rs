//! A program's part of the machine's processors.
//!
//! OpenMP, and with it NumPy and PyTorch, starts as many threads as there are processors, and they wait for each other after every loop. Where two such
//! programs run on one machine, each waits for threads that the other keeps from running: on 16 processors beside an H200 a small network whose world is
//! computed there made 670 steps a second alone, 26 beside any other program, and 690 beside it with eight threads each. No counter of the card shows that.
//! So every program is told its part in `OMP_NUM_THREADS`, unless somebody has said another number.

use std::num::NonZero;

/// The variable that OpenMP looks at.
pub const THREADS_VARIABLE: &str = "OMP_NUM_THREADS";

/// Threads for a program that holds `gpus` of all the machine's `of`, each of which up to `sharing` programs have at a time.
#[must_use]
pub fn threads_each(gpus: usize, of: usize, sharing: usize) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    part(processors, gpus, of, sharing)
}

fn part(processors: usize, gpus: usize, of: usize, sharing: usize) -> usize {
    (processors * gpus / (of * sharing).max(1)).clamp(1, processors)
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_of_all_programs_are_no_more_than_the_machine_has() {
        assert_eq!(part(16, 1, 1, 1), 16);
        assert_eq!(part(16, 1, 1, 2), 8, "two share the GPU");
        assert_eq!(part(64, 2, 8, 2), 8);
        assert_eq!(part(2, 1, 8, 2), 1, "nobody has less than one");
        for processors in 1..64 {
            for of in 1..10 {
                for sharing in 1..3 {
                    let each = part(processors, 1, of, sharing);
                    assert!(each == 1 || each * of * sharing <= processors);
                }
            }
        }
    }
}
