/**
 * What a server does about the calls that its line holds without a run of their stream.
 *
 * A server that starts finds calls of the server before it. Those of a stream that is over, or was aborted, end at once (G4). A stream that the
 * gateway serves is continued, because what is held is no second generation (G7); streams of other clients wait for their client, who has the key.
 * A stream that the store does not know may be opened again under its name: its call is left to the grace period.
 */
import type { LineClient } from "../agent/models/line/line-client.ts";
import type { StreamName } from "../core/stream-state.ts";
import { LetGo } from "../protocol/let-go.ts";
import type { Application, ApplicationStream } from "../server/index.ts";
import type { StreamStore } from "../store/index.ts";

export interface HeldCallsParts {
  readonly line: LineClient;
  readonly streams: Pick<StreamStore, "load">;
  /** Continues the stream if it is known here, and does nothing otherwise. */
  readonly wake: (stream: StreamName) => Promise<void>;
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
    else if (isGood) await wake(stream);
  }
}

/** The same application; an aborted turn leaves nothing at the line, also when an earlier run of it made the call. */
export function endingHeldCalls(application: Application, line: LineClient | undefined): Application {
  if (line === undefined) return application;
  return async (stream) => {
    try {
      await application(stream);
    } finally {
      if (stream.signal.aborted && !(stream.signal.reason instanceof LetGo)) await cancelAll(line, stream);
    }
  };
}

async function cancelAll(line: LineClient, stream: ApplicationStream): Promise<void> {
  const { principal, idempotencyKey, lasting } = stream;
  if (lasting === undefined) return;
  const names = (await line.held())
    .filter((call) => call.stream.principal === principal && call.stream.idempotencyKey === idempotencyKey)
    .map(({ name }) => name);
  if (names.length > 0) await line.say("cancel", names, lasting.hostEpoch);
}
