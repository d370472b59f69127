/** Mends of the tools and of what a person is shown of them, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "in the sandbox root writes the kernel's settings under /proc",
    file: "test/tools/sandbox.test.ts",
    test: "for root /proc is mounted to be read",
    patches: [
      {
        file: "src/tools/sandbox.ts",
        from: '...(isRoot ? ["--remount-ro", "/proc"] : []),',
        to: "",
      },
    ],
  },
  {
    name: "in the sandbox root makes namespaces of its own",
    file: "test/tools/sandbox.test.ts",
    test: "for root /proc is mounted to be read",
    patches: [
      {
        file: "src/tools/sandbox.ts",
        from: "...(hasNamespaces ? [] : NO_NAMESPACES),",
        to: "",
      },
    ],
  },
  {
    name: "white space in a command is shown as it is, however much there is",
    file: "test/tools/approvals.test.ts",
    test: "white space is folded",
    patches: [
      {
        file: "src/tools/visible-text.ts",
        from: "if (cells <= BLANK_CELLS_MAX) return run;",
        to: "if (cells > 0) return run;",
      },
    ],
  },
  {
    name: "of a large write only the hash is shown",
    file: "test/tools/approvals.test.ts",
    test: "a write shows what it changes",
    patches: [
      {
        file: "src/tools/approval-sight.ts",
        from: "if (text !== undefined) return { text, isText: true };",
        to: 'if (text !== undefined && content.content.case === "inline") return { text, isText: true };',
      },
    ],
  },
  {
    name: "of an edit the first lines of the file are shown",
    file: "test/tools/approvals.test.ts",
    test: "a write shows what it changes",
    patches: [
      {
        file: "src/tools/approval-text.ts",
        from: "diffLines(present.text, content.text)",
        to: 'diffLines("", content.text).slice(0, 28)',
      },
    ],
  },
  {
    name: "C7: a question that fails leaves it to the caller whether that is a yes",
    file: "test/tools/approvals.test.ts",
    test: "C7: what cannot be shown, or asked, is not approved",
    patches: [
      {
        file: "src/tools/approvals.ts",
        from: "} catch (cause) {",
        to: "} catch (cause) {\n      throw cause;",
      },
    ],
  },
  {
    name: "C7: a prompt that fails is a yes",
    file: "test/cli/chat-approval.test.ts",
    test: "C7: a question that fails is a no",
    patches: [
      {
        file: "src/cli/chat/asking.ts",
        from: '(reason) => ({ answer: "no", reason })',
        to: '() => ({ answer: "always" })',
      },
    ],
  },
  {
    name: "C7: an approval has as many rows as its command",
    file: "test/cli/chat-approval.test.ts",
    test: "C7: every page of an approval fits the screen",
    patches: [
      {
        file: "src/cli/chat/approval-pages.ts",
        from: "const room = showsAll ? rows.length : Math.max(ROWS_MIN, style.rows() - OWN_ROWS);",
        to: "const room = rows.length;",
      },
    ],
  },
  {
    name: "C7: text of a command shows the sign of our questions",
    file: "test/cli/chat-approval.test.ts",
    test: "C7: no text in an approval can look like the question",
    patches: [
      {
        file: "src/cli/chat/safe-text.ts",
        from: "return visible(text).replaceAll(OUR_SIGN, OTHER_SIGN);",
        to: "return visible(text);",
      },
    ],
  },
  {
    name: "E4: a closed directory that is moved is open",
    file: "test/tools/closed.test.ts",
    test: "E4: a closed directory is known by its inode",
    patches: [
      {
        file: "src/tools/closed.ts",
        from: "|| (stats !== undefined && ids.includes(idOf(stats)))",
        to: "",
      },
    ],
  },
  {
    name: "E4: a directory that is made when the tools are there is closed by its path alone",
    file: "test/tools/closed.test.ts",
    test: "E4: a closed directory is known by its inode",
    patches: [
      {
        file: "src/tools/closed.ts",
        from: "get now(): ClosedNow {\n      look();",
        to: "get now(): ClosedNow {",
      },
    ],
  },
  {
    name: "E4: the sandbox shows closed directories outside of the workspace",
    file: "test/tools/sandbox.test.ts",
    test: "E4: closed directories are covered",
    patches: [
      {
        file: "src/tools/sandbox.ts",
        from: '...outside.flatMap((path) => ["--tmpfs", path]),',
        to: "",
      },
    ],
  },
  {
    name: "a written file keeps the bits that lend its owner's rights",
    file: "test/tools/files.test.ts",
    test: "write keeps the permissions of a file",
    patches: [
      { file: "src/tools/write.ts", from: "old.stats.mode & 0o777)", to: "old.stats.mode & 0o7777)" },
    ],
  },
  {
    name: "C7: what is allowed for a tool of ours is allowed for a server of its name",
    file: "test/tools/declared.test.ts",
    test: "C7: a server or a function that is called like one of our tools",
    patches: [{ file: "src/tools/approvals.ts", from: "|| !isOwnTool(name)", to: '|| name !== ""' }],
  },
  {
    name: "C7: two servers have a tool of the same name, and the first to be there gets it",
    file: "test/tools/declared.test.ts",
    test: "C7: a name means one tool of one server",
    patches: [
      {
        file: "src/tools/declared-tools.ts",
        from: "const isPlain = PLAIN_SERVER.test(server) && ",
        to: "const isPlain = ",
      },
    ],
  },
  {
    name: "E4: a data directory that others may read stays so",
    file: "test/cli/data-dir.test.ts",
    test: "E4: a data directory that others may read is closed to them",
    patches: [{ file: "src/node/data-dir.ts", from: "chmodSync(dataDir, 0o700);", to: "" }],
  },
  {
    name: "E4: a directory that others use is closed to them",
    file: "test/cli/data-dir.test.ts",
    test: "E4: a directory that others use is refused",
    patches: [
      { file: "src/node/data-dir.ts", from: "return own.length === 0 ||", to: "return own.length >= 0 ||" },
    ],
  },
  {
    name: "C7: the client carries out what it did not offer to a turn",
    file: "test/client/agent/subagent-rights.test.ts",
    test: "C7: for a subagent that may only read nothing else is asked about",
    patches: [
      {
        file: "src/client/tool-limits.ts",
        from: "if (reason !== undefined) return reason;",
        to: "if (reason === exec.execId) return reason;",
      },
    ],
  },
  {
    name: "C7: what a turn was offered is not kept",
    file: "test/client/agent/subagent-rights.test.ts",
    test: "C7: after a restart of the client",
    patches: [
      {
        file: "src/client/agent/conversation.ts",
        from: "...before, ...offered };",
        to: "...before };",
      },
    ],
  },
  {
    name: "C7: a subagent gets what its parent was not offered",
    file: "test/client/agent/subagent-rights.test.ts",
    test: "C7: a subagent is offered, and gets, no more",
    patches: [
      {
        file: "src/client/agent/offered-tools.ts",
        from: "if (limit === undefined) return tools;",
        to: "if (limit !== tools) return tools;",
      },
    ],
  },
  {
    name: "E6: what is held is reached by its path once more",
    file: "test/tools/race.test.ts",
    test: "leads no file tool outside (ripgrep)",
    patches: [
      {
        file: "src/tools/held.ts",
        from: "return IS_LINUX ? `/proc/self/fd/${held.fd}` : held.path;",
        to: "return held.path;",
      },
    ],
  },
  {
    name: "marks that reverse the direction of writing reach the screen",
    file: "test/cli/chat-hostile.test.ts",
    test: "whatever a model or a tool says",
    patches: [
      { file: "src/cli/terminal.ts", from: String.raw`[\p{Cc}\p{Cf}\p{Zl}`, to: String.raw`[\p{Cc}\p{Zl}` },
    ],
  },
  {
    name: "D3: an approval stays open when the stream is aborted",
    file: "test/core/exec-abort.test.ts",
    test: "D3: an abort of the stream answers what waits for an approval",
    patches: [
      {
        file: "src/core/tool-journal.ts",
        from: `if (entry.hand !== "asking") continue;`,
        to: `if (entry.hand !== "asking" || next.aborted) continue;`,
      },
    ],
  },
  {
    name: "D3: an approval stays open when the stream has ended or is left",
    file: "test/e2e/tool-runs.test.ts",
    test: "D3: another client's abort closes the question whether a tool may run",
    patches: [
      {
        file: "src/core/tool-journal.ts",
        from: `cancels(state, ["running", "asking"])`,
        to: `cancels(state, ["running"])`,
      },
    ],
  },
  {
    name: "D3: a question of the agent stays open when its turn is over",
    file: "test/client/agent/conversation.test.ts",
    test: "D3: a question is closed when its turn is aborted",
    patches: [{ file: "src/client/agent/turn-queries.ts", from: "query?.closed.abort();", to: "" }],
  },
  {
    name: "D3: the chat asks on when the turn of its questions is over",
    file: "test/cli/chat-approval.test.ts",
    test: "D3: a question of the agent is closed with its turn",
    patches: [
      {
        file: "src/cli/chat/asking.ts",
        from: "await read(words.questionPrompt(question), signal);",
        to: "await read(words.questionPrompt(question));",
      },
    ],
  },
];
