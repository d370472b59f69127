/**
 * What a person can type: words for the agent, or a command that begins with a slash.
 *
 * A mistyped command is never sent to the model as a message: a person who meant `/quit` does not want to pay for an answer to it. A
 * path such as `/etc/hosts is empty` is no command, since its first word holds another slash.
 */
export type Typed =
  | { readonly kind: "nothing" | "quit" }
  | { readonly kind: "message"; readonly text: string }
  | { readonly kind: "shell"; readonly command: string }
  | { readonly kind: "continue" | "summarize" }
  | LocalCommand;

/** What needs no turn. */
export type LocalCommand =
  | { readonly kind: "help" | "new" | "list" | "models" | "todos" }
  | { readonly kind: "resume"; readonly which: string }
  | { readonly kind: "model"; readonly name: string }
  | { readonly kind: "wrong"; readonly why: string };

const PLAIN = ["help", "new", "list", "models", "summarize", "todos", "continue", "quit"] as const;

export const COMMAND_HELP: readonly (readonly [string, string])[] = [
  ["/help", "this list"],
  ["/new", "begin another conversation"],
  ["/list", "the conversations of this workspace"],
  ["/resume <number or id>", "continue one of them"],
  ["/model [name]", "show or choose the model"],
  ["/models", "the models that the server offers"],
  ["/continue", "let the agent continue without a new message"],
  ["/summarize", "replace the history by a summary"],
  ["/todos", "the agent's list of tasks"],
  ["/shell <command>, !<command>", "run a command here; the agent sees it and its output"],
  ["/quit, Ctrl-D", "leave; a turn under way can be resumed later"],
];

export const COMMAND_NAMES: readonly string[] = [...PLAIN, "resume", "model", "shell"].map(
  (name) => `/${name}`,
);

export function parseTyped(text: string): Typed {
  const trimmed = text.trim();
  if (trimmed === "") return { kind: "nothing" };
  if (trimmed.startsWith("!")) return shell(trimmed.slice(1).trim());
  const { name, rest = "" } = /^\/(?<name>[a-z]+)(?:\s+(?<rest>[^]*))?$/.exec(trimmed)?.groups ?? {};
  if (name === undefined) return { kind: "message", text: trimmed };
  const plain = PLAIN.find((known) => known === name || (name === "exit" && known === "quit"));
  if (plain !== undefined) {
    return rest === "" ? { kind: plain } : { kind: "wrong", why: `/${plain} takes nothing more` };
  }
  switch (name) {
    case "shell":
      return shell(rest);
    case "resume":
      return { kind: "resume", which: rest };
    case "model":
      return { kind: "model", name: rest };
    default:
      return { kind: "wrong", why: `there is no command /${name}; /help lists them` };
  }
}

function shell(command: string): Typed {
  return command === ""
    ? { kind: "wrong", why: "say which command: /shell <command>" }
    : { kind: "shell", command };
}

/** A line that ends in a backslash continues in the next one; the text so far, or undefined when it is whole. */
export function continued(line: string): string | undefined {
  return /(?:^|[^\\])(?:\\\\)*\\$/.test(line) ? `${line.slice(0, -1)}\n` : undefined;
}
