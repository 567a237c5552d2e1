//! Alibaba's GPU trace of 2023 (the *openb* pod lists).
//!
//! A pod with GPUs is a job: it arrives when it was created and lasts from its scheduling to its deletion. The
//! trace names no users, so the quality of service class stands in as the tenant, and no workloads, so these come
//! from the mix. arles has no fractions of a GPU: a pod that asked for one is given a whole GPU, which it may
//! share with a partner. Two of the trace's models, G2 and G3, are undisclosed; where the options do not say what
//! they are, they vanish from a pod's list, and a list that becomes empty restricts nothing.

use super::super::TraceError;
use super::super::fields::{Allow, Field, Source, expect_fields};
use super::{Format, Import, ImportOptions, Imported, columns};

pub(super) const FORMAT: Format = Format {
    name: "openb",
    about: "Alibaba 2023 pod list: CSV of name, num_gpu, gpu_milli, gpu_spec, qos and times",
    detect: |line| line.contains("gpu_milli") && line.contains("num_gpu"),
    read,
};

/// Our names of the trace's models; `None` if undisclosed.
const KINDS: [(&str, Option<&str>); 7] = [
    ("P100", Some("p100")),
    ("T4", Some("t4")),
    ("V100M16", Some("v100")),
    ("V100M32", Some("v100-32gb")),
    ("A10", Some("a10")),
    ("G2", None),
    ("G3", None),
];

const COLUMNS: [&str; 7] =
    ["num_gpu", "gpu_milli", "gpu_spec", "qos", "creation_time", "deletion_time", "scheduled_time"];

fn read(source: Source<'_>, options: &ImportOptions) -> Result<Imported, TraceError> {
    let mut import = Import::new(options);
    let (mut lines, mut fields) = (source.commas(), Vec::new());
    lines.next_into(&mut fields)?;
    let advice = "a job cannot be timed without it; use a pod list with times, such as openb_pod_list_default.csv";
    let columns = columns(source, &fields, COLUMNS, advice)?;
    let width = fields.len();
    let mut id = 0;
    while lines.next_into(&mut fields)? {
        expect_fields(source, &fields, width)?;
        pod(source, columns.map(|at| &fields[at]), id, &mut import)?;
        id += 1;
    }
    import.draft.start_at_zero();
    import.finish(source, FORMAT.name)
}

/// Imports or drops one pod; its fields are in the order of [`COLUMNS`].
fn pod(source: Source<'_>, fields: [&Field<'_>; 7], id: u64, import: &mut Import<'_>) -> Result<(), TraceError> {
    let [num_gpu, gpu_milli, gpu_spec, qos, creation, deletion, scheduled] = fields;
    let gang: u32 = source.whole(num_gpu, "num_gpu")?;
    let milli: u32 = source.whole(gpu_milli, "gpu_milli")?;
    let created = source.number(creation, "creation_time", Allow::NotNegative)?;
    let deleted = source.number(deletion, "deletion_time", Allow::NotNegative)?;
    if qos.text.trim().is_empty() {
        return Err(source.error(qos.at, "qos is empty; expected a class such as LS or BE"));
    }
    if gang == 0 {
        import.drop_line("no GPUs");
        return Ok(());
    }
    if scheduled.text.trim().is_empty() {
        import.drop_line("never scheduled, so it has no duration");
        return Ok(());
    }
    let seconds = deleted - source.number(scheduled, "scheduled_time", Allow::NotNegative)?;
    if seconds <= 0.0 {
        import.drop_line("no duration");
        return Ok(());
    }
    if milli < 1000 {
        import.change("asked for a fraction of a GPU (gpu_milli below 1000); imported with a whole one");
    }
    let kinds = kinds(source, gpu_spec, import)?;
    import.push_timed(id, qos.text.trim(), gang, created, seconds, kinds);
    Ok(())
}

fn kinds(source: Source<'_>, spec: &Field<'_>, import: &mut Import<'_>) -> Result<Vec<u16>, TraceError> {
    let mut kinds = Vec::new();
    let mut undisclosed = false;
    for model in spec.text.split('|').map(str::trim).filter(|model| !model.is_empty()) {
        let given = import.options.kind_names.iter().find(|(name, _)| name == model);
        let known = KINDS.iter().find(|(name, _)| *name == model);
        let kind = match (given, known) {
            (Some((_, kind)), _) => kind,
            (None, Some((_, Some(kind)))) => *kind,
            (None, Some((_, None))) => {
                undisclosed = true;
                continue;
            }
            (None, None) => {
                let message = format!("gpu_spec names the model '{model}', which has no kind; say which kind it is");
                return Err(source.error(spec.at, message));
            }
        };
        // The trace repeats models, and the options may map two of them to one kind.
        kinds.extend(import.draft.kind(kind).filter(|kind| !kinds.contains(kind)));
    }
    match (undisclosed, kinds.is_empty()) {
        (true, true) => import.change("asked for undisclosed models (G2, G3) only; imported without a restriction"),
        (true, false) => import.change("asked for undisclosed models (G2, G3) among others; restricted to the others"),
        (false, _) => {}
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    const HEADER: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,\
                          deletion_time,scheduled_time\n";

    fn import_with(lines: &str, options: &ImportOptions) -> Result<Imported, TraceError> {
        from_text(&format!("{HEADER}{lines}"), "o.csv", None, options)
    }

    fn import(lines: &str) -> Result<Imported, TraceError> {
        import_with(lines, &ImportOptions::default())
    }

    #[test]
    fn pods_become_jobs_and_losses_are_counted() {
        let lines = "a,1,1,1,460,,LS,Running,100,700,110\n\
                     b,1,1,0,0,,LS,Running,100,700,110\n\
                     c,1,1,8,1000,V100M16|V100M32|V100M32,BE,Failed,150,350,150\n\
                     d,1,1,1,1000,,BE,Pending,160,360,\n\
                     e,1,1,1,1000,G2,BE,Running,170,270,170\n\
                     f,1,1,1,1000,G2|T4,BE,Running,180,280,180\n\
                     g,1,1,1,1000,,BE,Running,190,190,190\n";
        let Imported { trace, report } = import(lines).unwrap();
        let seen: Vec<_> = trace.jobs.iter().map(|j| (j.id, j.tenant, j.gang, j.arrival_seconds, j.length)).collect();
        let duration = Length::Duration;
        assert_eq!(
            seen,
            [
                (0, 0, 1, 0.0, duration(590.0)),
                (2, 1, 8, 50.0, duration(200.0)),
                (4, 1, 1, 70.0, duration(100.0)),
                (5, 1, 1, 80.0, duration(100.0))
            ]
        );
        assert_eq!(trace.kinds, ["v100", "v100-32gb", "t4"]);
        assert_eq!(
            trace.jobs.iter().map(|j| j.kinds.clone()).collect::<Vec<_>>(),
            [vec![], vec![0, 1], vec![], vec![2]]
        );
        assert_eq!(report.dropped.values().sum::<usize>(), 3, "{report}");
        assert_eq!(report.changed.values().sum::<usize>(), 3, "{report}");
    }

    #[test]
    fn options_name_undisclosed_models_and_workloads() {
        let options = ImportOptions {
            kind_names: vec![("G2".into(), "a100".into())],
            workloads: Mix::only("my-model".into()),
            ..ImportOptions::default()
        };
        let Imported { trace, report } = import_with("e,1,1,1,1000,G2,BE,Running,170,270,170\n", &options).unwrap();
        assert_eq!((trace.kinds, trace.workloads), (vec!["a100".into()], vec!["my-model".into()]));
        assert!(report.changed.is_empty(), "{report}");
    }

    #[test]
    fn wrong_lines_are_pointed_at() {
        let check = |lines: &str, expected: &str| {
            let error = import(lines).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\n  should start with {expected}");
        };
        check("a,1,1,x,460,,LS,Running,100,700,110\n", "o.csv:2:7: num_gpu is 'x'; expected a whole number");
        check("a,1,1,1,460,H9,LS,Running,1,7,1\n", "o.csv:2:13: gpu_spec names the model 'H9', which has no kind");
        check("a,1,1,1,460,,,Running,100,700,110\n", "o.csv:2:14: qos is empty");
        check("a,1,1,1,460,,LS,Running,,700,110\n", "o.csv:2:25: creation_time is ''; expected a number");
        check("a,1,1,1,460,,LS\n", "o.csv:2:1: this line has 7 fields; expected 11");
        let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,1000\n";
        let error = from_text(text, "o.csv", None, &ImportOptions::default()).unwrap_err().to_string();
        assert!(
            error.starts_with("o.csv:1:1: the header lacks gpu_spec, qos, creation_time, deletion_time"),
            "{error}"
        );
    }
}
