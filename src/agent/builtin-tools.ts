/**
 * The tools that the agent offers by itself: how each is described to the model, how its arguments are checked, and
 * which execs it asks of the client.
 *
 * A tool is offered only if the client can carry out what it needs. Descriptions are for the model, and stable: they are
 * part of every prompt, and a change makes prompt caches cold.
 */
import { z } from "zod";
import { isJsonObject, type JsonObject } from "../protocol/chat-message.ts";
import { ExecKind, GrepOutput } from "../protocol/messages.ts";
import type { CallPlan, ExecMessage } from "../turn/call-plan.ts";

interface BuiltInTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonObject;
  /** Offered when the client has one of each group. */
  readonly needs: readonly (readonly ExecKind[])[];
  /** The action, or what is wrong with the arguments. */
  plan(args: unknown, kinds: ReadonlySet<ExecKind>): CallPlan | string;
}

const path = z.string().min(1).max(4_096).describe("Relative to the workspace, or absolute within it.");

const SHELL = z.object({
  command: z.string().min(1).describe("The command line, run by the user's shell in the workspace."),
  description: z.string().optional().describe("What it is for, in a few words; the user sees it."),
  working_directory: z
    .string()
    .optional()
    .describe("Within the workspace; the workspace itself when absent."),
  timeout_ms: z.int().min(1).max(600_000).optional(),
});
const READ = z.object({
  path,
  first_line: z.int().min(1).optional().describe("From 1."),
  line_count: z.int().min(1).optional(),
});
const WRITE = z.object({ path, content: z.string().describe("The whole file.") });
const EDIT_ARGS = z.object({
  old_text: z.string().describe("Copied exactly from the file, enough of it to be there only once."),
  new_text: z.string(),
  replace_all: z.boolean().optional().describe("Replace every occurrence."),
});
const EDIT = z.object({ path, edits: z.array(EDIT_ARGS).min(1).max(100) });
const DELETE = z.object({ path });
const LS = z.object({
  path: z.string().optional().describe("The workspace when absent."),
  depth: z.int().min(1).max(10).optional(),
  ignore: z.array(z.string()).max(100).optional().describe("Globs to leave out."),
});
const GLOB = z.object({
  pattern: z.string().min(1).describe("For example **/*.ts"),
  path: z.string().optional().describe("Where to begin; the workspace when absent."),
});
const GREP = z.object({
  pattern: z.string().min(1).describe("A regular expression."),
  path: z.string().optional().describe("A file or directory; the workspace when absent."),
  glob: z.string().optional().describe("Only files that match, for example **/*.ts"),
  output: z.enum(["lines", "files", "counts"]).optional(),
  lines_before: z.int().min(0).max(50).optional(),
  lines_after: z.int().min(0).max(50).optional(),
  ignore_case: z.boolean().optional(),
  multiline: z.boolean().optional().describe("The pattern may match across lines."),
});
const SUBAGENT = z.object({
  description: z.string().min(1).max(1_000).describe("The task in a few words; the user sees it."),
  prompt: z
    .string()
    .min(1)
    .describe("Everything that the other agent must know: it sees nothing of this conversation."),
  model: z.string().max(200).optional(),
  read_only: z.boolean().optional().describe("Offer it only tools without effects."),
});
const TODOS = z.object({
  todos: z
    .array(
      z.object({
        id: z.string().min(1).max(64),
        text: z.string().min(1).max(1_000),
        status: z.enum(["pending", "in_progress", "completed", "cancelled"]),
      }),
    )
    .max(100)
    .describe("The whole list; it replaces the one before."),
});
/** Offered also to a client that carries out nothing, when a user answers there. */
export const ASK_USER = "ask_user";
const ASK = z.object({
  questions: z
    .array(
      z.object({
        text: z.string().min(1).max(2_000),
        options: z.array(z.string().min(1).max(200)).max(20).optional().describe("Absent: free text."),
        allow_multiple: z.boolean().optional(),
      }),
    )
    .min(1)
    .max(10),
});

const OUTPUTS = { lines: GrepOutput.LINES, files: GrepOutput.FILES, counts: GrepOutput.COUNTS } as const;

/** At least one kind beside declared tools: the client is an agent's, not a plain chat. */
const ANY_BUILT_IN: readonly ExecKind[] = [
  ExecKind.SHELL,
  ExecKind.SHELL_STREAM,
  ExecKind.READ,
  ExecKind.WRITE,
  ExecKind.DELETE,
  ExecKind.LS,
  ExecKind.GLOB,
  ExecKind.GREP,
];

export const BUILT_IN_TOOLS: readonly BuiltInTool[] = [
  tool(
    "shell",
    "Run a shell command on the user's machine. Gives back its output and exit code.",
    SHELL,
    [[ExecKind.SHELL, ExecKind.SHELL_STREAM]],
    (args, kinds) => {
      const value = {
        command: args.command,
        description: args.description ?? "",
        workingDirectory: args.working_directory ?? "",
        ...(args.timeout_ms === undefined ? {} : { timeoutMs: args.timeout_ms }),
      };
      const streams = kinds.has(ExecKind.SHELL_STREAM);
      return exec(streams ? { case: "shellStreamArgs", value } : { case: "shellArgs", value });
    },
  ),
  tool("read", "Read a file, or some lines of it.", READ, [[ExecKind.READ]], (args) =>
    exec({
      case: "readArgs",
      value: {
        path: args.path,
        ...(args.first_line === undefined ? {} : { firstLine: args.first_line }),
        ...(args.line_count === undefined ? {} : { lineCount: args.line_count }),
      },
    }),
  ),
  tool(
    "write",
    "Write a whole file; directories are made as needed. To change a file use edit.",
    WRITE,
    [[ExecKind.WRITE]],
    (args) => ({
      kind: "write",
      path: args.path,
      text: args.content,
    }),
  ),
  tool(
    "edit",
    "Replace text in a file. All edits apply, one after the other, or none does.",
    EDIT,
    [[ExecKind.READ], [ExecKind.WRITE]],
    (args) => ({
      kind: "edit",
      path: args.path,
      edits: args.edits,
    }),
  ),
  tool("delete", "Delete a file or an empty directory.", DELETE, [[ExecKind.DELETE]], (args) =>
    exec({ case: "deleteArgs", value: { path: args.path } }),
  ),
  tool("ls", "List a directory.", LS, [[ExecKind.LS]], (args) =>
    exec({
      case: "lsArgs",
      value: { path: args.path ?? "", depth: args.depth ?? 0, ignore: [...(args.ignore ?? [])] },
    }),
  ),
  tool("glob", "Find files by name.", GLOB, [[ExecKind.GLOB]], (args) =>
    exec({ case: "globArgs", value: { pattern: args.pattern, path: args.path ?? "" } }),
  ),
  tool("grep", "Search files for a regular expression.", GREP, [[ExecKind.GREP]], (args) =>
    exec({
      case: "grepArgs",
      value: {
        pattern: args.pattern,
        path: args.path ?? "",
        glob: args.glob ?? "",
        output: OUTPUTS[args.output ?? "lines"],
        linesBefore: args.lines_before ?? 0,
        linesAfter: args.lines_after ?? 0,
        ignoreCase: args.ignore_case ?? false,
        multiline: args.multiline ?? false,
      },
    }),
  ),
  tool(
    "subagent",
    "Give a task of its own to another agent and get its answer. Several can run at the same time.",
    SUBAGENT,
    [[ExecKind.SUBAGENT]],
    (args) => ({
      kind: "subagent",
      args,
    }),
  ),
  tool(
    "todo_write",
    "Keep a list of what is to be done, for work of several steps. The user sees it.",
    TODOS,
    [ANY_BUILT_IN],
    (args) => ({
      kind: "todos",
      todos: args.todos,
    }),
  ),
  tool(ASK_USER, "Ask the user, when you cannot go on without an answer.", ASK, [ANY_BUILT_IN], (args) => ({
    kind: "ask",
    questions: args.questions,
  })),
];

function exec(message: ExecMessage): CallPlan {
  return { kind: "exec", message };
}

function tool<Schema extends z.ZodType>(
  name: string,
  description: string,
  schema: Schema,
  needs: readonly (readonly ExecKind[])[],
  plan: (args: z.infer<Schema>, kinds: ReadonlySet<ExecKind>) => CallPlan,
): BuiltInTool {
  const parameters: unknown = z.toJSONSchema(schema, { io: "input" });
  if (!isJsonObject(parameters)) throw new Error(`the schema of ${name} is no object`);
  return {
    name,
    description,
    parameters,
    needs,
    plan: (args, kinds) => {
      const parsed = schema.safeParse(args);
      return parsed.success ? plan(parsed.data, kinds) : z.prettifyError(parsed.error);
    },
  };
}
