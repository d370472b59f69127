/**
 * What a chat works with, put together: a server, a client with its journals, tools, conversations.
 *
 * Everything here outlives a turn and nothing outlives the process; what must is in the scope's directory.
 */
import { join } from "node:path";
import { Conversations, STREAM_DEFAULTS, subagentRunner } from "../../client/index.ts";
import { openClient } from "../../client-node/index.ts";
import type { Switches } from "../../client/stream-options.ts";
import { scopePaths } from "../../client-node/scope.ts";
import { given } from "../../protocol/given.ts";
import type { InteractionQuery } from "../../protocol/messages.ts";
import {
  type ApprovalAnswer,
  type ApprovalRequest,
  createTools,
  type ToolsConfig,
  type ToolSet,
} from "../../tools/index.ts";
import type { QueryAnswer } from "./asking.ts";
import type { ChatSettings } from "./chat-flags.ts";
import { movingTransport } from "./moving-transport.ts";
import type { ServerLink } from "./server-link.ts";

export type Session = Awaited<ReturnType<typeof openSession>>;

interface SessionOptions {
  readonly settings: ChatSettings;
  /** Directories of ours that no tool may touch, wherever the workspace is. */
  readonly closed: readonly string[];
  readonly link: ServerLink;
  readonly toolsConfig: ToolsConfig | undefined;
  /** Absent: no user can be asked, and what would need it is denied. */
  readonly ask?: (request: ApprovalRequest, signal: AbortSignal) => Promise<ApprovalAnswer>;
  readonly onQuery: (query: InteractionQuery, signal: AbortSignal) => Promise<QueryAnswer>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onNotice: (message: string) => void;
  /** Asked for each new stream. */
  readonly switches: () => Switches;
}

export async function openSession(options: SessionOptions) {
  const { settings, link, onQuery, onNotice } = options;
  const { directory } = scopePaths({ scope: "workspace", directory: settings.workspace });
  const transport = movingTransport(() => link.url);
  let conversations: Conversations | undefined;
  const tools = settings.hasTools
    ? await openTools(options, directory, () => {
        if (conversations === undefined) throw new Error("a tool runs before there are conversations");
        return conversations;
      })
    : undefined;
  try {
    const client = await openClient({
      url: link.url,
      connect: transport.connect,
      blobs: transport.blobs,
      apiKey: async () => link.apiKey,
      directory: settings.workspace,
      onNotice,
      stream: options.switches,
      ...given({ tools }),
    });
    conversations = new Conversations({
      client,
      ...client.stores,
      onQuery: (query, _turn, signal) => onQuery(query, signal),
      environment: environmentOf(settings.workspace, options.env),
      ...given({ tools }),
    });
    const close = async (): Promise<void> => {
      await client.close();
      transport.close();
      await tools?.close();
      link.close();
    };
    return {
      conversations,
      client,
      /** What people should know before they begin. */
      notices: tools?.notices ?? [],
      /** A turn that was quiet for longer is not offered at a start. */
      retryLookbackWindowMs: () =>
        options.switches().retryLookbackWindowMs ?? STREAM_DEFAULTS.retryLookbackWindowMs,
      close,
    };
  } catch (error) {
    await tools?.close();
    throw error;
  }
}

function openTools(
  { settings, toolsConfig, ask, env, closed }: SessionOptions,
  directory: string,
  conversations: () => Conversations,
): Promise<ToolSet> {
  return createTools({
    workspace: settings.workspace,
    stateDirectory: join(directory, "tools"),
    subagents: subagentRunner({ conversations }),
    closed,
    env,
    ...given({ config: toolsConfig, ask }),
  });
}

function environmentOf(workspace: string, env: SessionOptions["env"]) {
  return {
    workspace,
    operatingSystem: process.platform,
    shell: env["SHELL"] ?? "",
    timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  };
}
