/**
 * The deterministic world under the simulator, in one place.
 */
export { Counters } from "./counters.ts";
export { SimConnection, type CutOptions, type SideName } from "./connection.ts";
export { CALM_DISK, DISK_KINDS, type DiskFaults, SimDisk } from "./disk.ts";
export { type NetworkOptions, SimNetwork } from "./network.ts";
export { CALM_NETWORK, NETWORK_KINDS, type NetworkFaults } from "./network-faults.ts";
export {
  type CrashWhen,
  EFFECT_KINDS,
  type EffectKind,
  EPOCH_MS,
  type MachineClock,
  PROCESS_KINDS,
  SimProcess,
} from "./process.ts";
export { Random } from "./random.ts";
export { SimCommitLog } from "./sim-commit-log.ts";
export { SimJournalStore } from "./sim-journal-store.ts";
export type { TraceOptions, TraceValue } from "./trace.ts";
export { type RunOptions, type RunResult, TURN_KINDS, type Turns, World, WorldFailure } from "./world.ts";
