/**
 * What a server does, as OpenTelemetry's conventions for generative AI name it: the request, the run of its turn, the model's calls, the tools.
 *
 * One stream is one trace. Its id follows from the stream's hash, so that a server that was started again, another node and every retry of a client add to the
 * same trace without having heard of each other. A client that sends `traceparent` has the run in its own trace, with a link to the stream's.
 *
 * Nothing that was said is in a span, and no name of a stream or principal (E4); tools and models have theirs.
 */
import { hash, randomBytes } from "node:crypto";
import type { Logger } from "pino";
import type { Model, ModelCall, ModelPart } from "../../agent/index.ts";
import type { RequestLine } from "../../server/http/access-log.ts";
import { streamHash } from "../../server/http/access-log.ts";
import type { Mount } from "../../server/http/mount.ts";
import type { Application, ApplicationStream, ClientInput } from "../../server/index.ts";
import type { Exchange } from "../../transport/node/exchange.ts";
import { isTerminal } from "../../turn/exec-reply.ts";
import { decodeClient, decodeServer } from "../../turn/messages.ts";
import type { Machine } from "../machine.ts";
import { type Attributes, type Histogram, OtlpExporter, type Span, type SpanContext } from "./otlp.ts";

/** Buckets as the conventions advise. */
const DURATION: Histogram = {
  name: "gen_ai.client.operation.duration",
  unit: "s",
  bounds: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
};
const TOKENS: Histogram = {
  name: "gen_ai.client.token.usage",
  unit: "{token}",
  bounds: [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304],
};

/** Requests whose run may still be under way; older ones have the stream's own trace. */
const CONTEXTS_MAX = 4_096;
/** Of a request's `traceparent`: version, trace, span, flags. */
const TRACEPARENT =
  /^[0-9a-f]{2}-(?<traceId>(?!0{32})[0-9a-f]{32})-(?<spanId>(?!0{16})[0-9a-f]{16})-[0-9a-f]{2}/;

type Stream = Pick<ApplicationStream, "principal" | "idempotencyKey">;

export class Telemetry {
  readonly #otlp: OtlpExporter;
  /** Of the request that began a stream's run, by the stream's hash. */
  readonly #contexts = new Map<string, SpanContext>();
  /** Runs under way, by the stream's hash: what their spans are below. */
  readonly #runs = new Map<string, string>();
  readonly #spanIds = new WeakMap<Exchange, string>();

  private constructor(otlp: OtlpExporter) {
    this.#otlp = otlp;
  }

  /** Undefined where the environment names no collector: then nothing is wrapped, and nothing costs anything. */
  static open(env: Machine["env"], logger: Logger): Telemetry | undefined {
    const otlp = OtlpExporter.open(env, logger);
    return otlp === undefined ? undefined : new Telemetry(otlp);
  }

  close(waitMs: number): Promise<void> {
    return this.#otlp.close(waitMs);
  }

  /** The same mount; a request that begins an answer is what the answer's run is below. */
  mount(mount: Mount): Mount {
    return {
      ...mount,
      handle: (call) => {
        let principal: string | undefined;
        mount.handle({
          ...call,
          signIn: async () => {
            const guest = await call.signIn();
            ({ principal } = guest);
            return guest;
          },
          tell: (news) => {
            call.tell(news);
            if (news.answer !== "new" || news.streamId === undefined || principal === undefined) return;
            const stream = streamHash(principal, news.streamId);
            const { traceId } = parentOf(call.exchange) ?? { traceId: traceOf(stream) };
            this.#remember(stream, { traceId, spanId: this.#spanIdOf(call.exchange) });
          },
        });
      },
    };
  }

  /** A request is over. */
  readonly request = (line: RequestLine, exchange: Exchange): void => {
    const { kind, route, method, stream, answer, status, error, durationMs } = line;
    if (kind !== "gateway") return;
    const parent = parentOf(exchange);
    const traceId = parent?.traceId ?? traceOf(stream ?? this.#spanIdOf(exchange));
    this.#end({
      traceId,
      spanId: this.#spanIdOf(exchange),
      parentSpanId: parent?.spanId,
      links: parent === undefined || stream === undefined ? undefined : [rootOf(stream)],
      name: `${method} ${route ?? kind}`,
      kind: "server",
      startMs: Date.now() - durationMs,
      attributes: {
        "http.request.method": method,
        "http.route": route,
        "http.response.status_code": status,
        "holdfast.stream": stream,
        "holdfast.answer": answer,
      },
      error: status >= 500 ? (error ?? String(status)) : undefined,
    });
  };

  /** The same application, whose runs are spans with their tools below them. */
  application(application: Application): Application {
    return async (stream) => {
      const name = streamHash(stream.principal, stream.idempotencyKey);
      const span = { name: "invoke_agent holdfast", kind: "internal", startMs: Date.now() } as const;
      const spanId = newSpanId();
      const attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "holdfast",
        "holdfast.stream": name,
        "holdfast.host_epoch": stream.lasting?.hostEpoch,
      };
      this.#runs.set(name, spanId);
      let error: string | undefined;
      try {
        await application(this.#withTools(stream, name, spanId));
      } catch (cause) {
        error = errorType(cause);
        throw cause;
      } finally {
        if (this.#runs.get(name) === spanId) this.#runs.delete(name);
        const { traceId, spanId: parentSpanId } = this.#contexts.get(name) ?? { traceId: traceOf(name) };
        const links = traceId === traceOf(name) ? undefined : [rootOf(name)];
        this.#end({ ...span, traceId, spanId, parentSpanId, attributes, links, error });
      }
    };
  }

  /** A call of the model, as a span below its stream's run. */
  async *call(model: Model, call: ModelCall): AsyncGenerator<ModelPart> {
    const [provider = "", ...rest] = model.id.split("/");
    const startMs = Date.now();
    const asked = {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": provider,
      "gen_ai.request.model": rest.join("/"),
    };
    const heard: Record<string, string | number | readonly string[]> = {};
    let error: string | undefined = "abandoned";
    try {
      for await (const part of model.call(call)) {
        if (part.kind === "fallback") heard["gen_ai.response.model"] = part.model;
        if (part.kind === "finish") {
          const { inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens } = part.usage;
          heard["gen_ai.response.finish_reasons"] = [part.reason];
          heard["gen_ai.usage.input_tokens"] = inputTokens + cacheReadTokens + cacheWriteTokens;
          heard["gen_ai.usage.output_tokens"] = outputTokens;
          error = undefined;
        }
        yield part;
      }
    } catch (cause) {
      error = errorType(cause);
      throw cause;
    } finally {
      const labels = { ...asked, "error.type": error };
      this.#otlp.record(DURATION, (Date.now() - startMs) / 1_000, labels);
      for (const type of ["input", "output"]) {
        const count = heard[`gen_ai.usage.${type}_tokens`];
        if (typeof count === "number")
          this.#otlp.record(TOKENS, count, { ...asked, "gen_ai.token.type": type });
      }
      this.#endBelow(call.stream, {
        name: `chat ${rest.join("/")}`,
        kind: "client",
        startMs,
        attributes: { ...asked, ...heard, "error.type": error },
        error,
      });
    }
  }

  /** Watches what the run asks its client to do, and what the client answers. What an earlier run asked for is measured from this one's beginning. */
  #withTools(stream: ApplicationStream, name: string, parentSpanId: string): ApplicationStream {
    const open = new Map<string, { readonly tool: string; readonly startMs: number }>();
    // A run reads all answers of its log before it reads what they answer.
    const over = new Set<string>();
    const asked = (body: Uint8Array): void => {
      const { message } = decodeServer(body);
      if (message.case !== "execServerMessage") return;
      const { execId, message: exec } = message.value;
      const tool =
        exec.case === "mcpArgs" ? exec.value.name : (exec.case?.replace(/(?:Stream)?Args$/, "") ?? "");
      if (!over.has(execId)) open.set(execId, { tool, startMs: Date.now() });
    };
    const answered = ({ message }: ReturnType<typeof decodeClient>): void => {
      if (message.case !== "execClientMessage" || !isTerminal(message.value)) return;
      const { execId } = message.value;
      const exec = open.get(execId);
      open.delete(execId);
      over.add(execId);
      if (exec === undefined) return;
      const { tool, startMs } = exec;
      const { traceId } = this.#contexts.get(name) ?? { traceId: traceOf(name) };
      const attributes = { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool };
      this.#end({
        traceId,
        spanId: newSpanId(),
        parentSpanId,
        name: `execute_tool ${tool}`,
        kind: "internal",
        startMs,
        attributes,
      });
    };
    return {
      ...stream,
      emit: (...event: Parameters<ApplicationStream["emit"]>) => {
        asked(event[0]);
        return stream.emit(...event);
      },
      past: async function* past() {
        for await (const event of stream.past()) {
          if (event.body.length > 0) asked(event.body);
          yield event;
        }
      },
      inputs: watched(stream.inputs, answered),
    };
  }

  #endBelow(stream: Stream | undefined, span: Omit<Span, "traceId" | "spanId" | "endMs">): void {
    if (stream === undefined) return;
    const name = streamHash(stream.principal, stream.idempotencyKey);
    const { traceId } = this.#contexts.get(name) ?? { traceId: traceOf(name) };
    const attributes: Attributes = { ...span.attributes, "holdfast.stream": name };
    this.#end({ ...span, traceId, spanId: newSpanId(), parentSpanId: this.#runs.get(name), attributes });
  }

  #end(span: Omit<Span, "endMs">): void {
    this.#otlp.span({ ...span, endMs: Date.now() });
  }

  #spanIdOf(exchange: Exchange): string {
    const spanId = this.#spanIds.get(exchange) ?? newSpanId();
    this.#spanIds.set(exchange, spanId);
    return spanId;
  }

  #remember(stream: string, context: SpanContext): void {
    this.#contexts.delete(stream);
    this.#contexts.set(stream, context);
    for (const oldest of this.#contexts.keys()) {
      if (this.#contexts.size <= CONTEXTS_MAX) return;
      this.#contexts.delete(oldest);
    }
  }
}

async function* watched(
  inputs: AsyncIterable<ClientInput>,
  answered: (message: ReturnType<typeof decodeClient>) => void,
): AsyncGenerator<ClientInput> {
  for await (const input of inputs) {
    const message = input.kind === "chunk" ? readable(input.body) : undefined;
    if (message !== undefined) answered(message);
    yield input;
  }
}

/** What a client said wrong is for the run to judge. */
function readable(body: Uint8Array): ReturnType<typeof decodeClient> | undefined {
  try {
    return decodeClient(body);
  } catch {
    return undefined;
  }
}

function traceOf(stream: string): string {
  return hash("sha256", `trace of ${stream}`).slice(0, 32);
}

/** What stands for the stream in links: its trace, and a span that is never sent. */
function rootOf(stream: string): SpanContext {
  return { traceId: traceOf(stream), spanId: hash("sha256", `root of ${stream}`).slice(0, 16) };
}

function parentOf(exchange: Exchange): SpanContext | undefined {
  const { traceId, spanId } = TRACEPARENT.exec(exchange.header("traceparent") ?? "")?.groups ?? {};
  return traceId === undefined || spanId === undefined ? undefined : { traceId, spanId };
}

function newSpanId(): string {
  return randomBytes(8).toString("hex");
}

/** From a closed set: an error's words may be a user's. */
function errorType(cause: unknown): string {
  if (typeof cause === "object" && cause !== null && "code" in cause) return String(cause.code);
  return cause instanceof Error ? cause.name : "error";
}
