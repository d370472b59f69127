/**
 * Answers what the server asks on a stream, whether or not an HTTP request waits.
 *
 * Execs on the gateway's own machine are carried out, and questions to a person are declined. That is
 * what keeps a session alive between two HTTP requests.
 */
import type { ClientStream } from "../client/index.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { type AgentServerMessage } from "../protocol/messages.ts";
import { answerOwnExec, type Workspace } from "./own-execs.ts";
import { encodeClient } from "../turn/messages.ts";

interface ServerRequestParts {
  readonly stream: ClientStream;
  /** For execs that are not the client's. */
  readonly workspace: Workspace | undefined;
  readonly onBug: (bug: unknown) => void;
}

/** `body` is the encoded message. Resolves when it was answered, if it asks for anything. */
export async function answerServer(
  parts: ServerRequestParts,
  message: AgentServerMessage,
  body: Uint8Array,
): Promise<void> {
  try {
    const answer = await answerOf(parts, message, body);
    if (answer !== undefined) await parts.stream.send(answer);
  } catch (cause) {
    // The stream is over, or was let go: then the server asks again.
    if (!(cause instanceof HoldfastError)) parts.onBug(cause);
  }
}

async function answerOf(
  { stream, workspace }: ServerRequestParts,
  { message }: AgentServerMessage,
  body: Uint8Array,
): Promise<Uint8Array | undefined> {
  switch (message.case) {
    case "execServerMessage":
      return answerOwnExec(body, stream, workspace);
    case "interactionQuery":
      return unanswerable(message.value.id);
    default:
      return undefined;
  }
}

function unanswerable(id: number): Uint8Array {
  const response = { case: "unanswerable", value: { reason: "an OpenAI client cannot be asked" } } as const;
  return encodeClient({ case: "interactionResponse", value: { id, response } });
}
