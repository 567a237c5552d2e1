use arles_lp::families::*; use arles_lp::nash::*; use arles_lp::Budget;
#[test]
fn t() {
    let mut all = vec![]; let mut turns=vec![];
    for seed in 0..2000u64 {
        let users = 1 + (seed % 30) as usize; let resources = 1 + (seed / 7 % 4) as usize;
        let family = Family::ALL[(seed % 6) as usize]; let load = 0.05 * (1.0 + (seed % 50) as f64); 
        let Instance { w, caps, capacity, .. } = Instance::new(&Recipe { family, users, resources, load, uncapped: 0.2, spread: 0.0, seed });
        let weight: Vec<f64> = (0..users).map(|l| 1.0 + ((seed >> l) & 3) as f64).collect();
        let p = Nash { w: &w, weight: &weight, caps: &caps, capacity: &capacity };
        let i = Workspace::new().equal_incomes(&p, None, Budget::default()).unwrap();
        all.push(i.regret); turns.push(i.turns);
        if i.regret > 3e-3 { println!("seed {seed} n {users} k {resources} {family:?} load {load:.2} regret {:.1e} turns {}", i.regret, i.turns); }
    }
    all.sort_by(f64::total_cmp); turns.sort();
    for q in [0.5,0.9,0.95,0.99,0.999,1.0] { let a=((all.len()-1) as f64*q) as usize; println!("q {q}: regret {:.1e} turns {}", all[a], turns[a]); }
}
