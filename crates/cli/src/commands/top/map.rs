//! The map of GPUs: one mark each, or one for several where there are too many.
//!
//! A mark stands for the least k of 1, 2, 5, 10, 20, 50 … GPUs for which all kinds together fit. It shows whoever holds most of the k, unless
//! more than half of them are free, or away.

use arles_api::Gpus;

/// What one mark shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    Free,
    Away,
    /// Somebody that the caller may not see.
    Stranger,
    /// A tenant, and whether GPUs are shared by two jobs.
    Held {
        tenant: usize,
        pair: bool,
    },
}

/// The marks of one kind.
pub(super) struct KindMap {
    pub(super) name: String,
    pub(super) gpus: usize,
    pub(super) busy: usize,
    pub(super) marks: Vec<Mark>,
}

/// All kinds, and how many GPUs a mark stands for.
pub(super) fn marks(gpus: &Gpus, width: usize, height: usize) -> (Vec<KindMap>, usize) {
    let mut kinds: Vec<Vec<usize>> = vec![Vec::new(); gpus.kinds.len()];
    for (gpu, kind) in gpus.kind.iter().enumerate() {
        if let Some(list) = kinds.get_mut(usize::from(*kind)) {
            list.push(gpu);
        }
    }
    let rows = |k: usize| kinds.iter().map(|list| list.len().div_ceil(k).div_ceil(width.max(1)).max(1)).sum::<usize>();
    let k = steps().take_while(|k| *k <= gpus.kind.len().max(1)).find(|k| rows(*k) <= height);
    let k = k.unwrap_or_else(|| gpus.kind.len().max(1));
    let map = |(name, list): (&String, &Vec<usize>)| KindMap {
        name: name.clone(),
        gpus: list.len(),
        busy: list.iter().filter(|gpu| matches!(gpus.state.get(**gpu), Some(1 | 2))).count(),
        marks: list.chunks(k).map(|group| mark(gpus, group)).collect(),
    };
    (gpus.kinds.iter().zip(&kinds).map(map).collect(), k)
}

/// Lines that a map needs where every GPU has a mark of its own.
pub(super) fn rows(gpus: &Gpus, width: usize) -> usize {
    let mut counts = vec![0_usize; gpus.kinds.len()];
    for kind in &gpus.kind {
        if let Some(count) = counts.get_mut(usize::from(*kind)) {
            *count += 1;
        }
    }
    counts.iter().map(|count| count.div_ceil(width.max(1)).max(1)).sum()
}

/// 1, 2, 5, 10, 20, 50, …
fn steps() -> impl Iterator<Item = usize> {
    (0..8).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_usize.pow(power)))
}

fn mark(gpus: &Gpus, group: &[usize]) -> Mark {
    let one = |gpu: &usize| match gpus.state.get(*gpu) {
        Some(3) => Mark::Away,
        Some(holders @ (1 | 2)) => match gpus.tenant.get(*gpu).map(|tenant| usize::try_from(*tenant)) {
            Some(Ok(tenant)) => Mark::Held { tenant, pair: *holders == 2 },
            _ => Mark::Stranger,
        },
        _ => Mark::Free,
    };
    let all: Vec<Mark> = group.iter().map(one).collect();
    for most in [Mark::Away, Mark::Free] {
        if all.iter().filter(|mark| **mark == most).count() * 2 > all.len() {
            return most;
        }
    }
    // Of those who hold any, whoever holds most; of equals the first.
    let mut holders: Vec<(Mark, usize)> = Vec::new();
    for mark in all.iter().filter(|mark| !matches!(mark, Mark::Away | Mark::Free)) {
        match holders.iter_mut().find(|(known, _)| known == mark) {
            Some((_, count)) => *count += 1,
            None => holders.push((*mark, 1)),
        }
    }
    let most = holders.iter().map(|(_, count)| *count).max();
    let holder = holders.iter().find(|(_, count)| Some(*count) == most).map(|(mark, _)| *mark);
    holder.or(all.first().copied()).unwrap_or(Mark::Free)
}

/// A tenant's letter; a pair's is a capital.
pub(super) fn letter(tenant: usize, pair: bool) -> char {
    let letter = char::from(b'a' + (tenant % 26) as u8);
    if pair { letter.to_ascii_uppercase() } else { letter }
}
