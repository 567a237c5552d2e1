//! The NVIDIA GPUs of this machine, through NVML, the driver's own library.
//!
//! The library is loaded when it is asked for, so the same binary runs on machines without a GPU. A card is known by its UUID: numbers may
//! change when a card is lost. Energy is the card's own counter where it has one (Volta and later), which is exact however seldom it is read; older
//! cards only say what they draw now.
//!
//! On an H200 the counter takes 4 ms to answer (`e2e/gpu/calls.py`), so whoever looks often asks for it, and for what changes slowly, seldom.
//! The driver tells of critical errors (Xid) once, to whoever listens at that moment: they are counted from when the library was opened.

use super::meter::{GpuMeter, GpuReading, GpuTrouble};
use super::mig::Division;
use arles_core::{Kind, Library};
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, EventSet, Nvml};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

const GIB: f64 = (1u64 << 30) as f64;

/// A card that was found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Card {
    /// The driver's number of it.
    pub index: u32,
    /// What never changes about it, and what `CUDA_VISIBLE_DEVICES` takes.
    pub uuid: String,
    /// The driver's name of its model.
    pub name: String,
    /// Name of its kind in the library; `None` where the library has no such.
    pub kind: Option<String>,
    /// Device memory.
    pub memory_gib: f64,
    /// Whether it counts energy; else energy is the power at each reading times the time between readings.
    pub counts_energy: bool,
    /// The power limit in force.
    pub limit_watts: Option<f64>,
    /// Least and largest limit that it can be given.
    pub limits_watts: Option<(f64, f64)>,
    /// Of a slice, the card that it is part of, and which part of all slices' arithmetic it has: a slice has no meter of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_of: Option<PartOf>,
}

/// A slice's place in its card.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PartOf {
    /// UUID of the card.
    pub card: String,
    /// The slice's profile, `3g.71gb`.
    pub profile: String,
    /// Its arithmetic over that of all slices of the card.
    pub part: f64,
}

/// A process that uses a card.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CardUser {
    /// Its process.
    pub pid: u32,
    /// The job that it belongs to, by its environment, where that can be read.
    pub job: Option<u64>,
}

/// The driver's library, and the cards that it shows.
pub struct Nvidia {
    /// Never closed: what listens for errors must not outlive it, and it is opened once in a process.
    nvml: &'static Nvml,
    cards: Vec<Card>,
    errors: Mutex<Errors>,
}

/// Critical errors that the driver told of.
struct Errors {
    events: Option<EventSet<'static>>,
    /// By UUID: how many, and the number of the last.
    seen: BTreeMap<String, (u64, u64)>,
}

/// The card is no longer on the bus.
const XID_OFF_THE_BUS: u64 = 79;

impl Nvidia {
    /// Loads the library and looks for cards.
    ///
    /// # Errors
    /// A sentence, when there is no driver, or it does not answer.
    pub fn open() -> Result<Self, String> {
        let nvml: &'static Nvml = Box::leak(Box::new(Nvml::init().map_err(|error| match error {
            NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
                "there is no NVIDIA driver on this machine (libnvidia-ml.so was not found)".to_owned()
            }
            error => format!("the NVIDIA driver does not answer: {error}"),
        })?));
        let count = nvml.device_count().map_err(|error| format!("the NVIDIA driver does not answer: {error}"))?;
        let mut cards = Vec::new();
        for index in 0..count {
            // A card that has fallen off the bus keeps its number and answers nothing.
            let Ok(device) = nvml.device_by_index(index) else { continue };
            let Ok(card) = card(index, &device) else { continue };
            match slices(&device, &card) {
                slices if slices.is_empty() => cards.push(card),
                slices => cards.extend(slices),
            }
        }
        let errors = Mutex::new(Errors { events: listen(nvml, &cards), seen: BTreeMap::new() });
        Ok(Self { nvml, cards, errors })
    }

    /// The cards, in the driver's order.
    #[must_use]
    pub fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// The cards of each kind. Those that the library does not know are left out, and named.
    #[must_use]
    pub fn inventory(&self) -> Inventory {
        let mut inventory = Inventory::default();
        for card in &self.cards {
            match &card.kind {
                None => inventory.unknown.push(card.name.clone()),
                Some(kind) => match inventory.kinds.iter_mut().find(|(known, _)| known == kind) {
                    Some((_, uuids)) => uuids.push(card.uuid.clone()),
                    None => inventory.kinds.push((kind.clone(), vec![card.uuid.clone()])),
                },
            }
        }
        inventory
    }

    /// The cards of a kind, divided or not.
    pub(super) fn whole_cards(&self, kind: &str) -> Vec<String> {
        let count = self.nvml.device_count().unwrap_or(0);
        let devices = (0..count).filter_map(|index| card(index, &self.nvml.device_by_index(index).ok()?).ok());
        devices.filter(|card| card.kind.as_deref() == Some(kind)).map(|card| card.uuid).collect()
    }

    /// How a card is divided, and who uses it or a slice of it.
    pub(super) fn division(&self, uuid: &str) -> Result<Division, String> {
        let told = |error: NvmlError| format!("GPU {uuid} cannot be divided: {error}");
        let device = self.nvml.device_by_uuid(uuid).map_err(told)?;
        let mig = device.mig_mode().map_err(told)?.current == 1;
        let parts = || self.cards.iter().filter_map(|card| Some((card, card.part_of.as_ref()?)));
        let own = || parts().filter(|(_, part)| part.card == uuid);
        let users = own().flat_map(|(card, _)| self.users(&card.uuid)).chain(self.users(uuid));
        let mut users: Vec<u32> = users.map(|user| user.pid).collect();
        users.sort_unstable();
        users.dedup();
        Ok(Division { mig, slices: own().map(|(_, part)| part.profile.clone()).collect(), users })
    }

    /// Reads a card by its UUID, its counter of energy included.
    ///
    /// # Errors
    /// When the card is not there or cannot be read.
    pub fn look(&self, uuid: &str) -> Result<GpuReading, GpuTrouble> {
        self.read_card(uuid, None)
    }

    /// Only what changes from one moment to the next: power and utilisation. All else is as in the reading before.
    ///
    /// # Errors
    /// As [`Nvidia::look`].
    pub fn glance(&self, uuid: &str, before: &GpuReading) -> Result<GpuReading, GpuTrouble> {
        self.read_card(uuid, Some(before))
    }

    fn read_card(&self, uuid: &str, before: Option<&GpuReading>) -> Result<GpuReading, GpuTrouble> {
        let card = self.cards.iter().find(|card| card.uuid == uuid);
        // A card that the cluster has and the driver does not show was lost before this process began.
        let missing =
            || format!("there is no GPU {uuid} in this machine any more; 'arles gpus' lists those that there are");
        let card = card.ok_or_else(|| GpuTrouble::Lost(missing()))?;
        if let Some(part) = &card.part_of {
            return self.read_slice(card, part, before);
        }
        let device = self.nvml.device_by_uuid(uuid).map_err(|error| lost(card, &error))?;
        let (xid_errors, last_xid) = self.xids(uuid);
        if last_xid == Some(XID_OFF_THE_BUS) {
            return Err(lost(card, &NvmlError::GpuLost));
        }
        let said = match before {
            Some(before) => quick_reading(&device, before),
            None => reading(&device, card.counts_energy),
        };
        let said = said.map_err(|error| lost(card, &error))?;
        Ok(GpuReading { xid_errors, last_xid, ..said })
    }

    /// A slice's part of what its card says: of power and energy the part that it has of all slices' arithmetic, so that all slices together drew
    /// what the card counted.
    fn read_slice(&self, slice: &Card, part: &PartOf, before: Option<&GpuReading>) -> Result<GpuReading, GpuTrouble> {
        let device = self.nvml.device_by_uuid(part.card.as_str()).map_err(|error| lost(slice, &error))?;
        let said = match before {
            Some(before) => quick_reading(&device, before),
            None => reading(&device, slice.counts_energy),
        };
        let said = said.map_err(|error| lost(slice, &error))?;
        let own = self.nvml.device_by_uuid(slice.uuid.as_str()).map_err(|error| lost(slice, &error))?;
        let memory = own.memory_info().ok().map(|memory| memory.used as f64 / GIB);
        let joules = said.joules.map(|joules| part.part * joules).filter(|_| before.is_none());
        Ok(GpuReading {
            watts: part.part * said.watts,
            joules: joules.or(before.and_then(|before| before.joules)),
            // How busy a slice is nobody says.
            utilisation: None,
            memory_utilisation: None,
            memory_gib: memory.or(said.memory_gib),
            ..said
        })
    }

    /// How many critical errors a card had since the library was opened, and the number of the last; `None` where the driver does not tell.
    fn xids(&self, uuid: &str) -> (Option<u64>, Option<u64>) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let Errors { events, seen } = &mut *errors;
        let Some(events) = events else { return (None, None) };
        while let Ok(event) = events.wait(0) {
            let number = match event.event_data {
                Some(XidError::Value(number)) => number,
                _ => 0,
            };
            if let Ok(uuid) = event.device.uuid() {
                let (count, last) = seen.entry(uuid).or_default();
                (*count, *last) = (*count + 1, number);
            }
        }
        let known = seen.get(uuid);
        (Some(known.map_or(0, |(count, _)| *count)), known.map(|(_, last)| *last))
    }

    /// Who uses a card now.
    #[must_use]
    pub fn users(&self, uuid: &str) -> Vec<CardUser> {
        let processes = self.nvml.device_by_uuid(uuid).and_then(|device| device.running_compute_processes());
        let user = |pid: u32| CardUser { pid, job: job_of(pid) };
        processes.map_or_else(|_| Vec::new(), |processes| processes.iter().map(|process| user(process.pid)).collect())
    }
}

/// What a machine has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inventory {
    /// Kinds in the order they were found, with the UUIDs of their cards.
    pub kinds: Vec<(String, Vec<String>)>,
    /// Names of cards that the library does not know.
    pub unknown: Vec<String>,
}

/// Listens for critical errors of all cards; `None` where the driver does not tell.
fn listen(nvml: &'static Nvml, cards: &[Card]) -> Option<EventSet<'static>> {
    let mut events = nvml.create_event_set().ok()?;
    let mut uuids: Vec<&str> =
        cards.iter().map(|card| card.part_of.as_ref().map_or(&*card.uuid, |part| &part.card)).collect();
    uuids.dedup();
    for uuid in uuids {
        let device = nvml.device_by_uuid(uuid).ok()?;
        events = device.register_events(EventTypes::CRITICAL_XID_ERROR, events).ok()?;
    }
    Some(events)
}

fn card(index: u32, device: &Device<'_>) -> Result<Card, NvmlError> {
    let name = device.name()?;
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
    let limits = device.power_management_limit_constraints().ok();
    Ok(Card {
        index,
        uuid: device.uuid()?,
        kind: Library::builtin().kind(&name).ok().map(|kind| kind.name.clone()),
        name,
        memory_gib: device.memory_info()?.total as f64 / GIB,
        counts_energy: device.total_energy_consumption().is_ok(),
        limit_watts: device.enforced_power_limit().ok().map(watts),
        limits_watts: limits.map(|limits| (watts(limits.min_limit), watts(limits.max_limit))),
        part_of: None,
    })
}

/// The slices of a card; none of one that is whole. (One in MIG mode without slices can run nothing, and shows as a card that is whole.)
fn slices(device: &Device<'_>, card: &Card) -> Vec<Card> {
    if !device.mig_mode().is_ok_and(|mode| mode.current == 1) {
        return Vec::new();
    }
    let all = (0..device.mig_device_count().unwrap_or(0)).filter_map(|index| device.mig_device_by_index(index).ok());
    let named = all.filter_map(|slice| {
        let name = slice.name().ok()?;
        let profile = name.rsplit([' ', '-']).next()?.to_lowercase();
        let parts: f64 = profile.split_once("g.")?.0.parse().ok()?;
        Some((slice, name, profile, parts))
    });
    let named: Vec<_> = named.collect();
    let total: f64 = named.iter().map(|(.., parts)| parts).sum();
    let slice = |(slice, name, profile, parts): (Device<'_>, String, String, f64)| {
        Some(Card {
            uuid: slice.uuid().ok()?,
            kind: Library::builtin().any_kind(&name).ok().map(|kind| kind.name),
            name,
            memory_gib: slice.memory_info().ok()?.total as f64 / GIB,
            part_of: Some(PartOf { card: card.uuid.clone(), profile, part: parts / total }),
            ..card.clone()
        })
    };
    named.into_iter().filter_map(slice).collect()
}

fn reading(device: &Device<'_>, energy: bool) -> Result<GpuReading, NvmlError> {
    let joules = if energy { Some(device.total_energy_consumption()? as f64 / 1e3) } else { None };
    let utilisation = device.utilization_rates().ok();
    let throttled = device.current_throttle_reasons().unwrap_or(ThrottleReasons::empty());
    let ecc = device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile);
    Ok(GpuReading {
        watts: f64::from(device.power_usage()?) / 1e3,
        joules,
        utilisation: utilisation.as_ref().map(|rates| f64::from(rates.gpu) / 100.0),
        memory_utilisation: utilisation.as_ref().map(|rates| f64::from(rates.memory) / 100.0),
        memory_gib: device.memory_info().ok().map(|memory| memory.used as f64 / GIB),
        celsius: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
        clock_mhz: device.clock_info(Clock::SM).ok().map(f64::from),
        limit_watts: device.enforced_power_limit().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
        power_capped: throttled.contains(ThrottleReasons::SW_POWER_CAP),
        slowed_down: throttled.intersects(ThrottleReasons::HW_SLOWDOWN | ThrottleReasons::SW_THERMAL_SLOWDOWN),
        ecc_errors: ecc.ok(),
        ..GpuReading::default()
    })
}

fn quick_reading(device: &Device<'_>, before: &GpuReading) -> Result<GpuReading, NvmlError> {
    let utilisation = device.utilization_rates().ok();
    Ok(GpuReading {
        watts: f64::from(device.power_usage()?) / 1e3,
        utilisation: utilisation.as_ref().map(|rates| f64::from(rates.gpu) / 100.0),
        memory_utilisation: utilisation.as_ref().map(|rates| f64::from(rates.memory) / 100.0),
        ..*before
    })
}

fn lost(card: &Card, error: &NvmlError) -> GpuTrouble {
    let name = format!("GPU {} ({}, {})", card.index, card.name, card.uuid);
    match error {
        NvmlError::GpuLost | NvmlError::NotFound => {
            GpuTrouble::Lost(format!("{name} has fallen off the bus; see the kernel's log"))
        }
        NvmlError::ResetRequired => GpuTrouble::Lost(format!("{name} must be reset: 'nvidia-smi --gpu-reset'")),
        error => GpuTrouble::Unreadable(format!("{name} cannot be read: {error}")),
    }
}

/// The job that a process belongs to, by the variable that every program is told.
fn job_of(pid: u32) -> Option<u64> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let variable = environment.split(|&byte| byte == 0).find_map(|variable| variable.strip_prefix(b"ARLES_JOB="))?;
    std::str::from_utf8(variable).ok()?.parse().ok()
}

impl GpuMeter for Nvidia {
    fn read(&mut self, device: &str, _: &Kind, _: bool) -> Result<GpuReading, GpuTrouble> {
        self.look(device)
    }

    fn measures(&self) -> bool {
        true
    }
}
