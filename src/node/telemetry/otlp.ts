/**
 * Sends spans and histograms to a collector of OpenTelemetry: OTLP over HTTP, as JSON.
 *
 * What is measured never waits for the collector: spans are queued up to a bound, and one that does not answer costs lines of telemetry and nothing else.
 */
import type { Logger } from "pino";
import type { Machine } from "../machine.ts";

export type Attributes = Readonly<Record<string, string | number | readonly string[] | undefined>>;

export interface SpanContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
}

export interface Span extends SpanContext {
  readonly parentSpanId?: string | undefined;
  readonly name: string;
  readonly kind: "server" | "client" | "internal";
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  readonly links?: readonly SpanContext[] | undefined;
  /** Why it failed; undefined when it did not. */
  readonly error?: string | undefined;
}

export interface Histogram {
  readonly name: string;
  readonly unit: string;
  readonly bounds: readonly number[];
}

interface Points {
  readonly histogram: Histogram;
  readonly attributes: Attributes;
  readonly counts: number[];
  sum: number;
}

const KINDS = { internal: 1, server: 2, client: 3 } as const;
const FLUSH_MS = 5_000;
/** Beyond it the newest spans are lost. */
const SPANS_MAX = 4_096;
const BATCH_MAX = 512;
const ANSWER_MS = 10_000;
const CUMULATIVE = 2;
const FAILED = 2;

export class OtlpExporter {
  readonly #traces: URL;
  readonly #metrics: URL;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #resource: object;
  readonly #logger: Logger;
  readonly #beganMs = Date.now();
  readonly #points = new Map<string, Points>();
  readonly #timer: NodeJS.Timeout;
  #spans: Span[] = [];
  #hasNewPoints = false;
  #sending: Promise<void> = Promise.resolve();
  #isFailing = false;
  #answerMs = ANSWER_MS;
  /** Ends the request that is under way. */
  #asking = new AbortController();

  private constructor(endpoint: URL, env: Machine["env"], logger: Logger) {
    this.#traces = placeIn(env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"], endpoint, "v1/traces");
    this.#metrics = placeIn(env["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"], endpoint, "v1/metrics");
    this.#headers = headersIn(env["OTEL_EXPORTER_OTLP_HEADERS"]);
    this.#logger = logger;
    this.#resource = { attributes: listed({ "service.name": env["OTEL_SERVICE_NAME"] || "holdfast" }) };
    this.#timer = setInterval(() => void this.flush(), FLUSH_MS);
    this.#timer.unref();
  }

  /** Undefined where the environment names no collector. */
  static open(env: Machine["env"], logger: Logger): OtlpExporter | undefined {
    const endpoint = env["OTEL_EXPORTER_OTLP_ENDPOINT"] ?? "";
    if (endpoint === "" || env["OTEL_SDK_DISABLED"] === "true") return undefined;
    if (URL.canParse(endpoint)) return new OtlpExporter(new URL(endpoint), env, logger);
    logger.warn("OTEL_EXPORTER_OTLP_ENDPOINT is no URL: nothing is sent");
    return undefined;
  }

  span(span: Span): void {
    if (this.#spans.length < SPANS_MAX) this.#spans.push(span);
    if (this.#spans.length === BATCH_MAX) void this.flush();
  }

  record(histogram: Histogram, value: number, attributes: Attributes): void {
    const key = JSON.stringify([histogram.name, attributes]);
    const counts = Array.from({ length: histogram.bounds.length + 1 }, () => 0);
    const points = this.#points.get(key) ?? { histogram, attributes, counts, sum: 0 };
    const at = histogram.bounds.findIndex((bound) => value <= bound);
    const bucket = at === -1 ? histogram.bounds.length : at;
    points.counts[bucket] = (points.counts[bucket] ?? 0) + 1;
    points.sum += value;
    this.#points.set(key, points);
    this.#hasNewPoints = true;
  }

  /** Sends what is there; resolves when the collector has answered, or did not. */
  flush(): Promise<void> {
    return (this.#sending = this.#sending.then(() => this.#send()));
  }

  /** Sends what is there, and waits no longer for the collector. */
  async close(waitMs: number): Promise<void> {
    clearInterval(this.#timer);
    const timer = setTimeout(() => {
      this.#answerMs = 0;
      this.#asking.abort();
    }, waitMs);
    await this.flush();
    clearTimeout(timer);
  }

  async #send(): Promise<void> {
    const spans = this.#spans;
    this.#spans = [];
    const scope = { name: "holdfast" };
    const resource = this.#resource;
    if (spans.length > 0) {
      const scopeSpans = [{ scope, spans: spans.map(spanJson) }];
      await this.#post(this.#traces, { resourceSpans: [{ resource, scopeSpans }] });
    }
    if (!this.#hasNewPoints) return;
    this.#hasNewPoints = false;
    const metrics = [...this.#points.values()].map((points) => this.#metricJson(points));
    await this.#post(this.#metrics, { resourceMetrics: [{ resource, scopeMetrics: [{ scope, metrics }] }] });
  }

  async #post(url: URL, body: object): Promise<void> {
    if (this.#answerMs === 0) return;
    const headers = { ...this.#headers, "content-type": "application/json" };
    const asking = (this.#asking = new AbortController());
    const { signal } = asking;
    const timer = setTimeout(() => asking.abort(), this.#answerMs);
    try {
      const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body), signal });
      await answer.arrayBuffer();
      if (!answer.ok) throw new Error(`it answered ${answer.status}`);
      this.#isFailing = false;
    } catch (cause) {
      if (!this.#isFailing) this.#logger.warn({ err: cause }, "the OpenTelemetry collector takes nothing");
      this.#isFailing = true;
    } finally {
      clearTimeout(timer);
    }
  }

  #metricJson({ histogram: { name, unit, bounds }, attributes, counts, sum }: Points): object {
    const point = {
      attributes: listed(attributes),
      startTimeUnixNano: nano(this.#beganMs),
      timeUnixNano: nano(Date.now()),
      count: String(counts.reduce((total, count) => total + count, 0)),
      sum,
      bucketCounts: counts.map(String),
      explicitBounds: bounds,
    };
    return { name, unit, histogram: { aggregationTemporality: CUMULATIVE, dataPoints: [point] } };
  }
}

function spanJson({ kind, startMs, endMs, attributes, links, error, ...span }: Span): object {
  return {
    ...span,
    kind: KINDS[kind],
    startTimeUnixNano: nano(startMs),
    endTimeUnixNano: nano(endMs),
    attributes: listed(attributes),
    links,
    ...(error === undefined ? {} : { status: { code: FAILED, message: error } }),
  };
}

function listed(attributes: Attributes): readonly object[] {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: valueJson(value) }],
  );
}

function valueJson(value: string | number | readonly string[]): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "number") return { intValue: String(Math.round(value)) };
  return { arrayValue: { values: value.map((one) => ({ stringValue: one })) } };
}

function nano(timeMs: number): string {
  return `${Math.round(timeMs)}000000`;
}

/** The place of its own that a signal may have; else below the endpoint. */
function placeIn(own: string | undefined, endpoint: URL, path: string): URL {
  if (own !== undefined && URL.canParse(own)) return new URL(own);
  return new URL(path, endpoint.href.endsWith("/") ? endpoint : `${endpoint.href}/`);
}

/** `name=value,name=value`, as OpenTelemetry writes them. */
function headersIn(text = ""): Readonly<Record<string, string>> {
  const pairs = text.split(",").flatMap((pair) => {
    const at = pair.indexOf("=");
    return at === -1
      ? []
      : [[pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())] as const];
  });
  return Object.fromEntries(pairs);
}
