/**
 * What a server does about the calls that its line holds without a run of their stream.
 *
 * A server that starts finds calls of the server before it. Those of a stream that is over, or was aborted, end at once (G4). A stream that the
 * gateway serves is continued, because what is held is no second generation (G7); streams of other clients wait for their client, which has the key.
 * A stream that the store does not know may be opened again under its name, and so may be one that the gateway does not know: the gateway gets
 * both (`heldStreams`), and what no client asks for again is left to the grace period.
 */
import type { LineClient } from "../agent/models/line/line-client.ts";
import type { StreamName } from "../core/stream-state.ts";
import type { HeldStream, HeldStreams } from "../gateway/index.ts";
import { LetGo } from "../protocol/let-go.ts";
import type { Application } from "../server/index.ts";
import type { StreamStore } from "../store/index.ts";
import { STEP_REQUESTS_MAX } from "../turn/attempts.ts";
import { requestText } from "../turn/open-step.ts";

interface HeldCallsParts {
  readonly line: LineClient;
  readonly streams: Pick<StreamStore, "load">;
  /** Continues the stream, of which this call is held, if it is known here, and does nothing otherwise. */
  readonly wake: (stream: StreamName, name: string) => Promise<void>;
  /** The store is being closed. */
  readonly closing: AbortSignal;
}

export async function takeUpHeldCalls({ line, streams, wake, closing }: HeldCallsParts): Promise<void> {
  for (const { name, stream, isGood } of await line.held()) {
    if (closing.aborted) return;
    const found = await streams.load(stream);
    if (found.kind === "absent") continue;
    const isOver = found.kind === "gone" || found.state.aborted || found.state.end !== undefined;
    if (isOver)
      await line.say(
        "cancel",
        [name],
        found.kind === "gone" ? Number.MAX_SAFE_INTEGER : found.state.hostEpoch,
      );
    else if (isGood) await wake(stream, name);
  }
}

/** What the gateway may take up again for a client whose request a kill has lost. */
export function heldStreams(
  line: LineClient,
  streams: Pick<StreamStore, "load">,
  /** What texts are named under the stream's key. */
  secretNames: (streamId: string) => (text: string) => string,
): HeldStreams {
  return {
    namesOf: (streamId, attempt) => {
      const named = secretNames(streamId);
      return requests().map((request) => named(requestText(attempt, request)));
    },
    list: async () => {
      const held: HeldStream[] = [];
      for (const { stream, isGood } of await line.held()) {
        const found = isGood ? await streams.load(stream) : undefined;
        const { principal, idempotencyKey: streamId } = stream;
        if (found?.kind === "absent") held.push({ principal, streamId, isStored: false });
        if (found?.kind !== "live") continue;
        const { aborted, end, nextSeqno } = found.state;
        // Behind chunk 0 it has heard of nothing, so the call is that of its first answer.
        const isFirst = !aborted && end === undefined && nextSeqno === 1;
        if (isFirst) held.push({ principal, streamId, isStored: true });
      }
      return held;
    },
    end: ({ principal, streamId }) =>
      cancelAll(line, { principal, idempotencyKey: streamId }, Number.MAX_SAFE_INTEGER),
  };
}

/** Of all that an attempt may send; each is named only when it is asked for. */
function* requests(): Generator<number, undefined> {
  for (let request = 0; request < STEP_REQUESTS_MAX; request++) yield request;
  return undefined;
}

/**
 * The same application; a turn that is aborted, or ends after an earlier run of it, leaves nothing at the line: that run may have made a call of which
 * the log has no event, and a turn that was cancelled meanwhile does not look for it.
 */
export function endingHeldCalls(application: Application, line: LineClient | undefined): Application {
  if (line === undefined) return application;
  return async (stream) => {
    try {
      await application(stream);
    } finally {
      const { signal, lasting, pastInputs } = stream;
      const mayHold = signal.aborted || pastInputs > 0 || lasting?.isNew === false;
      if (mayHold && !(signal.reason instanceof LetGo)) await cancelAll(line, stream, lasting?.hostEpoch);
    }
  };
}

async function cancelAll(
  line: LineClient,
  { principal, idempotencyKey }: StreamName,
  hostEpoch: number | undefined,
): Promise<void> {
  if (hostEpoch === undefined) return;
  const names = (await line.held())
    .filter((call) => call.stream.principal === principal && call.stream.idempotencyKey === idempotencyKey)
    .map(({ name }) => name);
  if (names.length > 0) await line.say("cancel", names, hostEpoch);
}
