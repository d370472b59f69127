/**
 * A client with its conversations and its tools, put together once: `connect` opens one for a program, `holdfast chat` one for a person.
 *
 * Everything here outlives a turn and nothing outlives the process; what must is in the scope's directory.
 */
import { openClient, storesOf } from "../client-node/open-client.ts";
import type { NodeClientOptions } from "../client-node/options.ts";
import { Conversations, type ConversationsOptions } from "../client/index.ts";
import { given } from "../protocol/given.ts";
import type { ToolSet } from "../tools/tool-set.ts";

interface ConversationParts extends Pick<ConversationsOptions, "onQuery" | "environment"> {
  readonly client: Omit<NodeClientOptions, "tools">;
  /** Made first, because the client needs them; the conversations are there when a tool runs. Default: none. */
  readonly tools?: ((conversations: () => Conversations) => ToolSet | Promise<ToolSet>) | undefined;
  /** The agent may ask, also when no built-in tool is offered. */
  readonly answersQuestions?: boolean;
}

export type OpenConversations = Awaited<ReturnType<typeof openConversations>>;

/** Whether its server can be reached or not. */
export async function openConversations(parts: ConversationParts) {
  const { client: options, tools: make, answersQuestions = false, ...rest } = parts;
  let conversations: Conversations | undefined;
  const tools = await make?.(() => {
    if (conversations === undefined) throw new Error("a tool runs before there are conversations");
    return conversations;
  });
  try {
    const client = await openClient({ ...options, ...given({ tools }) });
    const offered = tools && { ...tools, answersQuestions };
    const { onBug } = options;
    conversations = new Conversations({ client, ...storesOf(client), ...rest, tools: offered, onBug });
    /** Leaves all turns, which continue at the server and can be resumed. */
    const close = async (): Promise<void> => {
      await client.close();
      await tools?.close();
    };
    return { client, conversations, tools, close };
  } catch (cause) {
    await tools?.close();
    throw cause;
  }
}
