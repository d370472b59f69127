/**
 * Everything that can go wrong on the simulated network, as numbers.
 *
 * One idea: probabilities are plain mutable fields, drawn per seed and turned up and down while the
 * world runs; zero draws nothing, so a fault that is off leaves the rest of the run as it was.
 *
 * Invariant: `CALM_NETWORK` loses, repeats and cuts nothing.
 */
export const NETWORK_KINDS = [
  "net.lost_frame",
  "net.lost_last_frame",
  "net.duplicated_frame",
  "net.ghost",
  "net.cut",
  "net.half_open",
  "net.late_frame",
  "net.long_delay",
  "net.slow_reader",
  "net.slow_writer",
  "net.backpressure",
  "net.drained",
  "net.refused",
  "net.server_down",
  "net.partition",
  "net.unauthenticated",
] as const;

export interface NetworkFaults {
  /** Per frame; each way. */
  delayMsMax: number;
  /** How likely a frame takes up to `longDelayMsMax`; those behind it on the connection wait. */
  longDelay: number;
  longDelayMsMax: number;
  /** Per frame, on a connection that lives on. */
  loseFrame: number;
  duplicateFrame: number;
  /** Per frame: the connection is cut around it. */
  cut: number;
  /** Of cuts and of crashes: one side never hears of it. */
  halfOpen: number;
  /** Of half-open connections: the side hears of it after all, up to `lateNewsMsMax` later. */
  lateNews: number;
  lateNewsMsMax: number;
  /** Per connect. */
  refuse: number;
  /** Per connect: something on the way sends the first client frames again, on a connection of its own. */
  ghost: number;
  ghostDelayMsMax: number;
  /** Per connect: what goes to the client (reader) or to the server (writer) trickles. */
  slowReader: number;
  slowWriter: number;
  slowBytesPerMsMax: number;
}

export const CALM_NETWORK: Readonly<NetworkFaults> = Object.freeze({
  delayMsMax: 5,
  longDelay: 0,
  longDelayMsMax: 60_000,
  loseFrame: 0,
  duplicateFrame: 0,
  cut: 0,
  halfOpen: 0,
  lateNews: 0.5,
  lateNewsMsMax: 300_000,
  refuse: 0,
  ghost: 0,
  ghostDelayMsMax: 30_000,
  slowReader: 0,
  slowWriter: 0,
  slowBytesPerMsMax: 20,
});
