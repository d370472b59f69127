/**
 * All rows, in the order of the table.
 */
import type { Row } from "../harness/row.ts";
import { appends } from "./appends.ts";
import { delivery } from "./delivery.ts";
import { flatness } from "./flatness.ts";
import { latency } from "./latency.ts";
import { memory } from "./memory.ts";
import { reconnect } from "./reconnect.ts";
import { resumableStream } from "./resumable-stream.ts";
import { storm5000 } from "./storm.ts";

export const rows: readonly Row[] = [
  delivery,
  appends,
  resumableStream,
  latency,
  reconnect,
  flatness,
  memory,
  storm5000,
];
