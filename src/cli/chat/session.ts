/**
 * What a chat works with: what `connect` opens for a program, with the way to a server that may move, and the tools of this machine.
 */
import { join } from "node:path";
import { type Conversations, STREAM_DEFAULTS, subagentRunner } from "../../client/index.ts";
import type { Switches } from "../../client/stream-options.ts";
import { scopePaths } from "../../client-node/scope.ts";
import { openConversations } from "../../node/open-conversations.ts";
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
  /** Absent: no user can be asked. What needs an approval is denied, and the denial names the flag that allows it. */
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
  const opened = await openConversations({
    client: {
      url: link.url,
      connect: transport.connect,
      blobs: transport.blobs,
      apiKey: async () => link.apiKey,
      directory: settings.workspace,
      onNotice,
      stream: options.switches,
    },
    tools: settings.hasTools ? (conversations) => openTools(options, directory, conversations) : undefined,
    onQuery: (query, _turn, signal) => onQuery(query, signal),
    environment: {
      workspace: settings.workspace,
      operatingSystem: process.platform,
      shell: options.env["SHELL"] ?? "",
      timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    },
  });
  const { conversations, client, tools } = opened;
  return {
    conversations,
    client,
    /** What people should know before they begin. */
    notices: tools?.notices ?? [],
    /** A turn that was quiet for longer is not offered at a start. */
    retryLookbackWindowMs: () =>
      options.switches().retryLookbackWindowMs ?? STREAM_DEFAULTS.retryLookbackWindowMs,
    close: async (): Promise<void> => {
      await opened.close();
      transport.close();
      link.close();
    },
  };
}

const unasked: SessionOptions["ask"] = async ({ tool }) => ({
  answer: "no",
  reason: `no user can be asked here; to allow it, run this again with --allow ${tool}`,
});

function openTools(
  { settings, toolsConfig, ask = unasked, env, closed }: SessionOptions,
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
