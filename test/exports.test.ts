/**
 * What the package exports, name by name: nine entry points, and no value beside those that a manual speaks of. A new name is added here on purpose, and one
 * that goes is a change for users.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { entryPoints } from "./docs/entry-points.ts";
import { fieldsOf } from "./tidy/repository.ts";

const CLIENT = [
  "Conversations",
  "HoldfastError",
  "STREAM_DEFAULTS",
  "memoryStores",
  "openClient",
  "spokenText",
  "splitStream",
  "stallLine",
  "storesOf",
  "subagentRunner",
];

const EXPORTS: Readonly<Record<string, readonly string[]>> = {
  holdfast: ["HoldfastError", "SERVE_DEFAULTS", "connect", "serve", "tool"],
  "holdfast/client": ["DEFAULT_URL", ...CLIENT],
  "holdfast/client/browser": ["BrowserClient", "SharedConnection", ...CLIENT, "toolRunner"],
  "holdfast/fetch": ["holdfast"],
  "holdfast/react": ["HoldfastError", "LiveConversations", "tool", "useConversation", "useStream"],
  "holdfast/ai-sdk": [
    "Chats",
    "HoldfastChatTransport",
    "HoldfastError",
    "HoldfastRouteTransport",
    "LiveConversations",
    "openChats",
    "tool",
  ],
  "holdfast/tools": [
    "TOOLS_DEFAULTS",
    "createTools",
    "foldedText",
    "parseToolsConfig",
    "visibleLine",
    "visibleText",
    "writeExecResult",
  ],
  "holdfast/server": [
    "ApiKeys",
    "HoldfastError",
    "ModelFailure",
    "createAgent",
    "createModels",
    "createServer",
    "memoryBlobStore",
    "memoryStreamStore",
    "memoryTransport",
    "nodeSealing",
    "openSqliteStore",
    "rehearsalModel",
    "serveHttp",
  ],
  "holdfast/protocol": [
    "AgentClientMessageSchema",
    "AgentServerMessageSchema",
    "ExecClientMessageSchema",
    "ExecKind",
    "ExecServerMessageSchema",
    "ExecThrowCode",
    "FailureKind",
    "FinishReason",
    "HoldfastError",
    "LIMITS",
    "PROTOCOL_VERSION",
    "TodoStatus",
    "ToolOutcome",
    "TurnEndReason",
    "readExec",
    "writeExecAborted",
    "writeExecError",
    "writeExecRejected",
    "writeExecThrow",
    "writeExecUnknown",
  ],
};

test("the package has these entry points, and each exports these values", async () => {
  assert.deepEqual([...entryPoints.keys()].toSorted(), Object.keys(EXPORTS).toSorted());
  for (const [name, source] of entryPoints) {
    const found = fieldsOf(await import(source)).map(([exported]) => exported);
    assert.deepEqual(found.toSorted(), [...(EXPORTS[name] ?? [])].toSorted(), name);
  }
});
