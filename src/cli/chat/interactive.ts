/**
 * The conversation with a person: reads what is typed, carries out commands, shows turns.
 *
 * Leaving never ends a turn: it continues at the server, and the next start shows it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Conversation, TodoView, Turn, TurnInput, TurnPart } from "../../client/index.ts";
import { HoldfastError, messageOf } from "../../protocol/errors.ts";
import { given } from "../../protocol/given.ts";
import type { Asker } from "./asking.ts";
import type { ChatSettings } from "./chat-flags.ts";
import { COMMAND_HELP, type LocalCommand, parseTyped, type Typed } from "./commands.ts";
import { choose, listLines, titleFrom, titleOf } from "./conversation-list.ts";
import { EXIT_DONE, EXIT_INTERRUPTED } from "./exit-codes.ts";
import type { LineInput } from "./line-input.ts";
import { recapLines, todosOfConversation } from "./recap.ts";
import { safeLine } from "./safe-text.ts";
import type { TurnScreen } from "./screen.ts";
import type { ServerLink } from "./server-link.ts";
import type { Session } from "./session.ts";
import type { ShownStatus } from "./status-text.ts";
import type { Style } from "./style.ts";
import { todoLines } from "./transcript.ts";
import { showTurn } from "./turn-display.ts";

interface InteractiveOptions {
  readonly settings: ChatSettings;
  readonly session: Session;
  readonly link: ServerLink;
  readonly input: LineInput;
  readonly screen: TurnScreen;
  readonly style: Style;
  readonly asker: Asker;
  readonly hasStatusLine: boolean;
  readonly now: () => number;
}

const PROMPT = "› ";
/** How long a question of a resumed turn waits for what it belongs to. */
const CONTEXT_MS_MAX = 1_000;

export type InteractiveChat = ReturnType<typeof interactiveChat>;

export function interactiveChat({
  settings,
  session,
  link,
  input,
  screen,
  style,
  asker,
  hasStatusLine,
  now,
}: InteractiveOptions) {
  let conversation: Conversation | undefined;
  let running: Turn | undefined;
  /** Said while a turn ran, and not taken up by it so far. */
  const queued: string[] = [];
  let interrupts = 0;
  let todosShown = "";
  let toolShown = Promise.withResolvers<void>();
  const leaving = Promise.withResolvers<number>();
  let { model } = settings;

  /** Ctrl-C while a turn runs: the first stops it, the second leaves at once. */
  function interrupt(): void {
    interrupts++;
    if (interrupts > 1 || running === undefined) {
      leave(EXIT_INTERRUPTED);
      return;
    }
    void running.abort().catch(complain);
  }

  /** Leaves at once; a turn that runs continues at the server. */
  function leave(exitCode = EXIT_DONE): void {
    leaving.resolve(exitCode);
  }

  async function talk(): Promise<void> {
    await begin();
    for (let typed = await next(); typed !== undefined; typed = await next()) {
      try {
        if (await obey(typed)) return;
      } catch (error) {
        complain(error);
      }
    }
  }

  /** Undefined when the person leaves. */
  async function next(): Promise<Typed | undefined> {
    const waiting = queued.shift();
    if (waiting !== undefined) {
      screen.note(style.dim("The turn had ended before it was taken up; sent now:"));
      screen.note(style.cyan(`${PROMPT}${safeLine(waiting)}`));
      return { kind: "message", text: waiting };
    }
    for (let emptyInterrupts = 0; ;) {
      screen.note("");
      const entered = await input.read(style.cyan(PROMPT), "message");
      if (entered.kind === "line") return parseTyped(entered.text);
      if (entered.kind !== "interrupt") return undefined;
      emptyInterrupts = entered.hadText ? 0 : emptyInterrupts + 1;
      if (emptyInterrupts > 1) return undefined;
      if (!entered.hadText) screen.note(style.dim("Ctrl-C once more leaves, and so does Ctrl-D."));
    }
  }

  /** True when the chat is over. */
  async function obey(typed: Typed): Promise<boolean> {
    switch (typed.kind) {
      case "nothing":
        break;
      case "message":
        await send({ text: typed.text }, typed.text);
        break;
      case "shell":
        await send({ kind: "shell", command: typed.command });
        break;
      case "continue":
      case "summarize":
        await send({ kind: typed.kind });
        break;
      case "quit":
        return true;
      default:
        await command(typed);
    }
    return false;
  }

  async function command(typed: LocalCommand): Promise<void> {
    switch (typed.kind) {
      case "help":
        for (const [name, about] of COMMAND_HELP) screen.print(`  ${style.bold(name.padEnd(30))}${about}`);
        screen.print(
          style.dim(
            "  A line that ends in \\ continues in the next one. Ctrl-C stops a turn; twice in a row, it leaves.",
          ),
        );
        return;
      case "new":
        conversation = undefined;
        screen.note(style.dim("A new conversation begins with your next message."));
        return;
      case "list":
        for (const line of listLines(await records(), now(), style)) screen.print(line);
        return;
      case "resume":
        await goOn(choose(await records(), typed.which).conversationId);
        return;
      case "model":
        chooseModel(typed.name);
        return;
      case "models":
        await listModels();
        return;
      case "todos":
        await showTodos();
        return;
      case "wrong":
        screen.note(style.yellow(typed.why));
        return;
    }
  }

  function records() {
    return session.conversations.list();
  }

  async function begin(): Promise<void> {
    const { begin: which } = settings;
    const known = await records();
    if (typeof which === "object") return goOn(choose(known, which.conversation).conversationId);
    const [latest] = known;
    if (which === "continue") {
      if (latest !== undefined) return goOn(latest.conversationId);
      screen.note(style.dim("There is no conversation in this workspace yet; a new one begins."));
      return;
    }
    const cutOff = known.find(({ turn }) => turn !== undefined);
    if (cutOff === undefined) return;
    const said = cutOff.turn?.said ?? "";
    const name = said === "" ? `A turn of “${titleOf(cutOff)}”` : `“${titleOf({ title: said })}”`;
    screen.note(style.yellow(`${name} was interrupted.`));
    const isOld = now() - cutOff.updatedMs > session.retryLookbackWindowMs();
    if (isOld || !hasStatusLine) {
      screen.note(`--continue or /resume ${cutOff.conversationId.slice(0, 8)} continues it.`);
    } else if (await asker.confirm("Continue it?")) {
      await goOn(cutOff.conversationId);
    }
  }

  /** Opens a conversation, shows how it stood, and resumes the turn that was cut off, if there is one. */
  async function goOn(conversationId: string): Promise<void> {
    const opened = await session.conversations.open(conversationId);
    conversation = opened;
    screen.note(style.dim(`Conversation ${conversationId.slice(0, 8)}: ${titleOf(opened.record)}`));
    for (const line of await recapLines(opened, style)) screen.print(line);
    if (opened.record.turn === undefined) return;
    await link.lookAfter();
    // A tool that waits for its approval asks at once; the person should see first what it belongs to.
    toolShown = Promise.withResolvers<void>();
    asker.after(Promise.race([toolShown.promise, sleep(CONTEXT_MS_MAX)]));
    const turn = await opened.resume();
    if (turn === undefined) {
      screen.note(
        style.yellow("The turn that was cut off is gone; /continue lets the agent start from what is known."),
      );
      return;
    }
    if (turn.role === "reader")
      screen.note(style.dim("Another process runs this turn, or has ended it: watching it."));
    await show(turn);
  }

  async function send(said: TurnInput, typed?: string): Promise<void> {
    await link.lookAfter();
    conversation ??= await session.conversations.begin({
      title: titleFrom(typed ?? ("command" in said ? `! ${said.command}` : "")),
      ...chosenModel(),
      ...given({ systemPrompt: settings.systemPrompt }),
    });
    await show(await conversation.send(said, chosenModel()), typed);
  }

  async function show(turn: Turn, typed?: string): Promise<void> {
    running = turn;
    interrupts = 0;
    screen.note("");
    try {
      await showTurn(turn, {
        screen,
        style,
        input,
        hasStatusLine,
        showsThinking: settings.showsThinking,
        typed,
        now,
        onLine: (text) => typedMeanwhile(text, turn),
        onInterrupt: interrupt,
        onLeave: leave,
        onStatus: watchOver,
        onShown: shown,
        isNews,
      });
    } finally {
      running = undefined;
    }
  }

  /** A connection that breaks may mean that the server on this machine is gone. */
  function watchOver({ state }: ShownStatus): void {
    if (state !== "reconnecting" && state !== "connecting") return;
    void link.lookAfter();
  }

  function typedMeanwhile(text: string, turn: Turn): void {
    const typed = parseTyped(text);
    if (typed.kind === "nothing") return;
    if (typed.kind === "quit") {
      leave();
      return;
    }
    if (typed.kind !== "message") {
      screen.note(style.dim("Commands wait until the turn has ended; Ctrl-C stops it."));
      return;
    }
    queued.push(typed.text);
    screen.note(style.dim(`For the agent's next step: ${safeLine(typed.text)}`));
    turn.say(typed.text).catch(complain);
  }

  function isNews(todos: readonly TodoView[]): boolean {
    const list = JSON.stringify(todos);
    const isOther = todos.length > 0 && list !== todosShown;
    todosShown = list;
    return isOther;
  }

  function shown(part: TurnPart): void {
    if (part.type === "tool" && part.change === "started") toolShown.resolve();
    if (part.type !== "user") return;
    const at = queued.indexOf(part.text);
    if (at !== -1) queued.splice(at, 1);
  }

  function chosenModel(): { readonly model?: string } {
    return model === "" ? {} : { model };
  }

  function chooseModel(name: string): void {
    if (name !== "") model = name;
    const shownModel = model === "" ? "the server's default" : safeLine(model);
    screen.note(style.dim(name === "" ? `Model: ${shownModel}` : `From the next turn on: ${shownModel}`));
  }

  async function listModels(): Promise<void> {
    const models = (await link.about())?.models;
    if (models === undefined) {
      screen.note(
        "Only a server on this machine tells its models; /model <provider/model> chooses one by name.",
      );
      return;
    }
    for (const { id, isDefault } of models) {
      screen.print(`  ${safeLine(id)}${isDefault ? style.dim("  (default)") : ""}`);
    }
    if (models.length === 0) screen.note("The server names no models.");
  }

  async function showTodos(): Promise<void> {
    const todos = conversation === undefined ? [] : await todosOfConversation(conversation);
    if (todos.length === 0) screen.note(style.dim("The agent keeps no todos in this conversation."));
    for (const line of todoLines(todos, style)) screen.print(line);
  }

  function complain(error: unknown): void {
    const message = messageOf(error);
    const isOurs = error instanceof HoldfastError;
    screen.note(style.red(safeLine(isOurs ? message : `a bug: ${message}`)));
  }

  return {
    /** Resolves with the exit code. */
    async run(): Promise<number> {
      return Promise.race([talk().then(() => EXIT_DONE), leaving.promise]);
    },
    interrupt,
    leave,
    /** True while a turn runs, which continues at the server when the person leaves. */
    get isBusy(): boolean {
      return running !== undefined;
    },
  };
}
