/**
 * What `/metrics` shows: the plain numbers of the server and of this edge, in Prometheus' format.
 *
 * Everything is collected on request. Labels come from closed sets: no stream, no principal and nothing that a client
 * chose can become one (E4), and their number is bounded (F2). `docs/OPERATIONS.md` has the table.
 */
import { readdirSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { type Clock, CLOCKS, type StallCounts } from "../../core/standstill.ts";
import type { ServerCounters, Tally } from "../counters.ts";
import type { Server } from "../server.ts";
import type { HttpCounters } from "./http-counters.ts";

interface MetricSources {
  readonly server: Pick<Server, "counters" | "hostedCount">;
  readonly http: HttpCounters;
  readonly failedSignIns: () => number;
  readonly sockets: () => number;
  readonly blobBytesHeld: () => number;
  /** More lines in the same format, of parts that this server does not know. */
  readonly more?: (() => string) | undefined;
}

export interface Metrics {
  readonly contentType: string;
  text(): string;
  /** Stops measuring. */
  close(): void;
}

type Values = Iterable<readonly [labels: Readonly<Record<string, string | number>>, value: number]>;

/** A value, or one for each value of the labels. */
type Read = () => number | Values;
type Make = (name: string, help: string, read: Read) => void;
type Makers = Readonly<Record<"counter" | "gauge", Make>> & {
  readonly histogram: (name: string, help: string, tally: Tally) => void;
};

/** Version 0.0.4 of Prometheus' text, which every scraper reads. */
const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export function createMetrics(sources: MetricSources): Metrics {
  const loop = monitorEventLoopDelay({ resolution: 20 });
  loop.enable();
  const metrics: (() => string)[] = [];
  const add = (type: string, name: string, help: string, lines: () => readonly string[]): void => {
    metrics.push(() => [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines(), ""].join("\n"));
  };
  const make: Makers = {
    counter: (name, help, read) => add("counter", name, help, () => linesOf(name, read())),
    gauge: (name, help, read) => add("gauge", name, help, () => linesOf(name, read())),
    histogram: (name, help, tally) => add("histogram", name, help, () => histogramLines(name, tally)),
  };
  addStreams(make, sources);
  addHttp(make, sources);
  addProcess(make, loop);
  const text = (): string => metrics.map((one) => one()).join("") + (sources.more?.() ?? "");
  return { contentType: CONTENT_TYPE, text, close: () => loop.disable() };
}

/** What labels say comes from closed sets and needs no escape. */
function linesOf(name: string, values: number | Values): readonly string[] {
  if (typeof values === "number") return [`${name} ${values}`];
  return Array.from(values, ([labels, value]) => {
    const named = Object.entries(labels).map(([label, of]) => `${label}="${of}"`);
    return `${name}{${named.join(",")}} ${value}`;
  });
}

/** Each bucket counts what the smaller ones do as well. */
function histogramLines(name: string, { bounds, counts, sum, count }: Tally): readonly string[] {
  let under = 0;
  const buckets = bounds.map((le, at) => [{ le }, (under += counts[at] ?? 0)] as const);
  return [
    ...linesOf(`${name}_bucket`, [...buckets, [{ le: "+Inf" }, count]]),
    ...linesOf(`${name}_sum`, sum),
    ...linesOf(`${name}_count`, count),
  ];
}

function addStreams(make: Makers, { server, http }: MetricSources): void {
  const { counter, gauge, histogram } = make;
  const { counters } = server;
  gauge("holdfast_streams_hosted", "Streams that this node has in hand.", () => server.hostedCount);
  gauge("holdfast_connections", "Connections of streams that are open.", () => http.connectionsOpen);
  const outcomes = ["opened", "resumed", "degraded"] as const;
  counter("holdfast_attaches_total", "Attaches that were welcomed, by what they found.", () =>
    outcomes.map((outcome) => [{ outcome }, counters[outcome]] as const),
  );
  counter("holdfast_refusals_total", "Connections and requests that were refused, by error code.", () =>
    Object.entries(counters.refusals).map(([code, count]) => [{ code }, count] as const),
  );
  counter("holdfast_chunks_committed_total", "Chunks made durable.", () => counters.chunksCommitted);
  counter("holdfast_events_committed_total", "Events made durable.", () => counters.eventsCommitted);
  counter("holdfast_acks_total", "Acks sent.", () => counters.acks);
  counter(
    "holdfast_replays_total",
    "Reads of the store for readers that are behind.",
    () => counters.replays,
  );
  counter("holdfast_commits_total", "Commits of single streams.", () => counters.commits);
  const { commitSeconds, appendSeconds, appendBytes } = counters;
  histogram("holdfast_commit_seconds", "From a commit to its durability.", commitSeconds);
  histogram("holdfast_append_seconds", "One append of the log, synced.", appendSeconds);
  histogram("holdfast_append_bytes", "Bytes of one append of the log.", appendBytes);
  counter("holdfast_store_failures_total", "Calls that the store has refused.", () => counters.storeFailures);
  counter("holdfast_expired_total", "Streams that became tombstones.", () => counters.expired);
  addStalls(make, counters.stalls);
  counter("holdfast_bugs_total", "Failed assertions, and what the application threw.", () => counters.bugs);
}

function addStalls({ counter, gauge }: Makers, stalls: ServerCounters["stalls"]): void {
  const each = (what: keyof StallCounts[Clock]): Read => {
    const sides = ["server", "client"] as const;
    return () =>
      sides.flatMap((side) =>
        CLOCKS.map((clock) => [{ side, clock }, stalls[side][clock][what]] as const).filter(
          // A server has no such clock.
          ([{ clock }]) => side === "client" || clock !== "silence",
        ),
      );
  };
  counter("holdfast_stalls_total", "Stalls that were detected.", each("stalled"));
  counter("holdfast_stalls_resumed_total", "Stalls after which activity resumed.", each("resumed"));
  gauge("holdfast_streams_stalled", "Streams that stand still now.", each("now"));
}

function addHttp({ counter, gauge }: Makers, sources: MetricSources): void {
  const { http } = sources;
  gauge("holdfast_http_sockets", "Open sockets.", sources.sockets);
  gauge("holdfast_http_requests_open", "Requests under way, by kind.", () =>
    [...http.open].map(([kind, count]) => [{ kind }, count] as const),
  );
  counter(
    "holdfast_http_requests_total",
    "Requests that are over, by kind and status; 0 was never answered.",
    () => [...http.done].map(([name, count]) => [statusLabels(name), count] as const),
  );
  counter("holdfast_http_foreign_total", "Requests refused for their Host or Origin.", () => http.foreign);
  counter("holdfast_sign_in_failures_total", "Requests without a valid API key.", sources.failedSignIns);
  counter("holdfast_http_received_bytes_total", "Bytes of requests' bodies.", () => http.bytesIn);
  counter("holdfast_http_sent_bytes_total", "Bytes of responses' bodies.", () => http.bytesOut);
  counter("holdfast_blob_received_bytes_total", "Bytes of blobs that were stored.", () => http.blobBytesIn);
  counter("holdfast_blob_sent_bytes_total", "Bytes of blobs that were fetched.", () => http.blobBytesOut);
  gauge("holdfast_blob_held_bytes", "Memory reserved for blobs under way.", sources.blobBytesHeld);
}

function statusLabels(name: string): Readonly<Record<string, string>> {
  const [kind = "", status = ""] = name.split(" ");
  return { kind, status };
}

const NANOSECONDS = 1e9;

function addProcess({ counter, gauge }: Makers, loop: ReturnType<typeof monitorEventLoopDelay>): void {
  gauge(
    "holdfast_event_loop_lag_max_seconds",
    "Longest delay of the event loop since the last scrape.",
    () => {
      const max = loop.max / NANOSECONDS;
      loop.reset();
      return max;
    },
  );
  const memory = "Memory of the process.";
  gauge("process_resident_memory_bytes", memory, () => process.memoryUsage.rss());
  gauge("process_open_fds", "Open file descriptors; 0 where the system does not tell.", openDescriptors);
  counter("process_cpu_seconds_total", "Time on a processor.", () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
}

function openDescriptors(): number {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch {
    return 0;
  }
}
