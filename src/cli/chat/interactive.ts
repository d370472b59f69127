/**
 * The conversation with a person: reads what is typed, carries out commands, shows turns.
 *
 * Leaving never ends a turn: it continues at the server, and the next start shows it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Conversation, TodoView, Turn, TurnEnd, TurnInput, TurnPart } from "../../client/index.ts";
import { HoldfastError, messageOf } from "../../protocol/errors.ts";
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
import { TurnDisplay } from "./turn-display.ts";

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

export class InteractiveChat {
  readonly #options: InteractiveOptions;
  #conversation: Conversation | undefined;
  #model: string;
  #turn: { readonly turn: Turn; readonly display: TurnDisplay } | undefined;
  /** Said while a turn ran, and not taken up by it so far. */
  #queued: string[] = [];
  #interrupts = 0;
  #todosShown = "";
  #toolShown = Promise.withResolvers<void>();
  readonly #leaving = Promise.withResolvers<number>();

  constructor(options: InteractiveOptions) {
    this.#options = options;
    this.#model = options.settings.model;
  }

  /** Resolves with the exit code. */
  async run(): Promise<number> {
    const told = this.#talk().then(() => EXIT_DONE);
    return Promise.race([told, this.#leaving.promise]);
  }

  /** Ctrl-C while a turn runs: the first stops it, the second leaves at once. */
  interrupt(): void {
    this.#interrupts++;
    if (this.#interrupts > 1 || this.#turn === undefined) {
      this.leave(EXIT_INTERRUPTED);
      return;
    }
    void this.#turn.turn.abort().catch((error: unknown) => this.#complain(error));
  }

  /** Leaves at once; a turn that runs continues at the server. */
  leave(exitCode = EXIT_DONE): void {
    this.#leaving.resolve(exitCode);
  }

  async #talk(): Promise<void> {
    await this.#begin();
    for (let typed = await this.#next(); typed !== undefined; typed = await this.#next()) {
      try {
        if (await this.#obey(typed)) return;
      } catch (error) {
        this.#complain(error);
      }
    }
  }

  /** Undefined when the person leaves. */
  async #next(): Promise<Typed | undefined> {
    const { input, screen, style } = this.#options;
    const waiting = this.#queued.shift();
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
  async #obey(typed: Typed): Promise<boolean> {
    switch (typed.kind) {
      case "nothing":
        break;
      case "message":
        await this.#send({ text: typed.text }, typed.text);
        break;
      case "shell":
        await this.#send({ kind: "shell", command: typed.command }, undefined);
        break;
      case "continue":
      case "summarize":
        await this.#send({ kind: typed.kind }, undefined);
        break;
      case "quit":
        return true;
      default:
        await this.#command(typed);
    }
    return false;
  }

  async #command(typed: LocalCommand): Promise<void> {
    const { screen, style } = this.#options;
    switch (typed.kind) {
      case "help":
        for (const [name, about] of COMMAND_HELP) screen.print(`  ${style.bold(name.padEnd(30))}${about}`);
        screen.print(
          style.dim(
            "  A line that ends in \\ goes on in the next one. Ctrl-C stops a turn, twice it leaves.",
          ),
        );
        return;
      case "new":
        this.#conversation = undefined;
        screen.note(style.dim("A new conversation begins with your next message."));
        return;
      case "list":
        for (const line of listLines(await this.#records(), this.#options.now(), style)) screen.print(line);
        return;
      case "resume":
        await this.#goOn(choose(await this.#records(), typed.which).conversationId);
        return;
      case "model":
        this.#chooseModel(typed.name);
        return;
      case "models":
        await this.#listModels();
        return;
      case "todos":
        await this.#showTodos();
        return;
      case "wrong":
        screen.note(style.yellow(typed.why));
        return;
    }
  }

  #records() {
    return this.#options.session.conversations.list();
  }

  async #begin(): Promise<void> {
    const { settings, session, screen, style, asker } = this.#options;
    const { begin } = settings;
    const records = await this.#records();
    if (typeof begin === "object") return this.#goOn(choose(records, begin.conversation).conversationId);
    const [latest] = records;
    if (begin === "continue") {
      if (latest !== undefined) return this.#goOn(latest.conversationId);
      screen.note(style.dim("There is no conversation in this workspace yet; a new one begins."));
      return;
    }
    const cutOff = records.find(({ turn }) => turn !== undefined);
    if (cutOff === undefined) return;
    screen.note(style.yellow(`A turn of “${titleOf(cutOff)}” was left before its end.`));
    const isOld = this.#options.now() - cutOff.updatedMs > session.retryLookbackWindowMs();
    if (isOld || !this.#options.hasStatusLine) {
      screen.note(`--continue or /resume ${cutOff.conversationId.slice(0, 8)} goes on with it.`);
    } else if (await asker.confirm("Go on with it?")) {
      await this.#goOn(cutOff.conversationId);
    }
  }

  /** Opens a conversation, tells how it stood, and goes on with the turn that was cut off, if there is one. */
  async #goOn(conversationId: string): Promise<void> {
    const { session, link, screen, style, asker } = this.#options;
    const conversation = await session.conversations.open(conversationId);
    this.#conversation = conversation;
    screen.note(style.dim(`Conversation ${conversationId.slice(0, 8)}: ${titleOf(conversation.record)}`));
    for (const line of await recapLines(conversation, style)) screen.print(line);
    if (conversation.record.turn === undefined) return;
    await link.lookAfter();
    // A tool that waits for its approval asks at once; the person should see first what it belongs to.
    this.#toolShown = Promise.withResolvers<void>();
    asker.after(Promise.race([this.#toolShown.promise, sleep(CONTEXT_MS_MAX)]));
    const turn = await conversation.resume();
    if (turn === undefined) {
      screen.note(
        style.yellow("The turn that was cut off is gone; /continue lets the agent go on from what is known."),
      );
      return;
    }
    if (turn.role === "reader")
      screen.note(style.dim("Another process runs this turn, or has ended it: watching it."));
    await this.#show(turn, undefined);
  }

  async #send(input: TurnInput, typed: string | undefined): Promise<void> {
    const { session, settings, link } = this.#options;
    await link.lookAfter();
    this.#conversation ??= await session.conversations.begin({
      title: titleFrom(typed ?? ("command" in input ? `! ${input.command}` : "")),
      ...(this.#model === "" ? {} : { model: this.#model }),
      ...(settings.systemPrompt === undefined ? {} : { systemPrompt: settings.systemPrompt }),
    });
    const turn = await this.#conversation.send(input, this.#model === "" ? {} : { model: this.#model });
    await this.#show(turn, typed);
  }

  async #show(turn: Turn, typed: string | undefined): Promise<TurnEnd> {
    const { screen, style, input, hasStatusLine, settings, now } = this.#options;
    const display = new TurnDisplay(turn, {
      screen,
      style,
      input,
      hasStatusLine,
      showsThinking: settings.showsThinking,
      typed,
      now,
      onLine: (text) => this.#typedMeanwhile(text, turn),
      onInterrupt: () => this.interrupt(),
      onLeave: () => this.leave(),
      onStatus: (status) => this.#watchOver(status),
      onShown: (part) => this.#shown(part),
      isNews: (todos) => this.#isNews(todos),
    });
    this.#turn = { turn, display };
    this.#interrupts = 0;
    screen.note("");
    try {
      return await display.run();
    } finally {
      this.#turn = undefined;
    }
  }

  /** A connection that breaks may mean that the server on this machine is gone. */
  #watchOver({ state }: ShownStatus): void {
    if (state !== "reconnecting" && state !== "connecting") return;
    void this.#options.link.lookAfter();
  }

  #typedMeanwhile(text: string, turn: Turn): void {
    const { screen, style } = this.#options;
    const typed = parseTyped(text);
    if (typed.kind === "nothing") return;
    if (typed.kind === "quit") {
      this.leave();
      return;
    }
    if (typed.kind !== "message") {
      screen.note(style.dim("Commands wait until the turn has ended; Ctrl-C stops it."));
      return;
    }
    this.#queued.push(typed.text);
    screen.note(style.dim(`For the agent's next step: ${safeLine(typed.text)}`));
    turn.say(typed.text).catch((error: unknown) => this.#complain(error));
  }

  #isNews(todos: readonly TodoView[]): boolean {
    const list = JSON.stringify(todos);
    const isNews = todos.length > 0 && list !== this.#todosShown;
    this.#todosShown = list;
    return isNews;
  }

  #shown(part: TurnPart): void {
    if (part.kind === "tool" && part.change === "started") this.#toolShown.resolve();
    if (part.kind !== "user") return;
    const at = this.#queued.indexOf(part.text);
    if (at !== -1) this.#queued.splice(at, 1);
  }

  /** Whether a turn is under way, which goes on when we leave. */
  get isBusy(): boolean {
    return this.#turn !== undefined;
  }

  #chooseModel(name: string): void {
    const { screen, style } = this.#options;
    if (name !== "") this.#model = name;
    const model = this.#model === "" ? "the server's default" : safeLine(this.#model);
    screen.note(style.dim(name === "" ? `Model: ${model}` : `From the next turn on: ${model}`));
  }

  async #listModels(): Promise<void> {
    const { link, screen, style } = this.#options;
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

  async #showTodos(): Promise<void> {
    const { screen, style } = this.#options;
    const todos = this.#conversation === undefined ? [] : await todosOfConversation(this.#conversation);
    if (todos.length === 0) screen.note(style.dim("The agent keeps no todos in this conversation."));
    for (const line of todoLines(todos, style)) screen.print(line);
  }

  #complain(error: unknown): void {
    const { screen, style } = this.#options;
    const message = messageOf(error);
    const isOurs = error instanceof HoldfastError;
    screen.note(style.red(safeLine(isOurs ? message : `a bug: ${message}`)));
  }
}
