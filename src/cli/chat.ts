/**
 * `holdfast chat`: an agent in the terminal, whose turns survive whatever happens to the terminal, the network and the server.
 *
 * Puts the parts in `chat/` together and takes them down again. With a message on the command line it answers that and
 * ends; else it talks with a person.
 */
import { existsSync, fstatSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { text as textOf } from "node:stream/consumers";
import type { Switches } from "../client/stream-options.ts";
import type { Turn } from "../client/index.ts";
import { keyDirectory, scopePaths, thisPlatform } from "../client-node/scope.ts";
import { CONFIG_FILE } from "./config-file.ts";
import type { InteractionQuery } from "../protocol/messages.ts";
import type { ToolsConfig } from "../tools/index.ts";
import { allowing } from "./chat/allowances.ts";
import { newAsker, type QueryAnswer } from "./chat/asking.ts";
import { type ChatFlags, type ChatSettings, checkChatFlags } from "./chat/chat-flags.ts";
import { COMMAND_NAMES } from "./chat/commands.ts";
import { listLines } from "./chat/conversation-list.ts";
import { EXIT_INTERRUPTED, EXIT_NO_SERVER } from "./chat/exit-codes.ts";
import { openHistory } from "./chat/history.ts";
import { interactiveChat, type InteractiveChat } from "./chat/interactive.ts";
import { pipedInput, ttyInput } from "./chat/line-input.ts";
import { oneShot } from "./chat/one-shot.ts";
import { safeLine } from "./chat/safe-text.ts";
import { plainScreen, ttyScreen } from "./chat/screen.ts";
import { linkServer, type ServerLink } from "./chat/server-link.ts";
import { openSession, type Session } from "./chat/session.ts";
import { type Style, styleOf } from "./chat/style.ts";
import { commandsOn } from "./commands-on.ts";
import { usageError } from "../node/failures.ts";
import { openConversations } from "../node/open-conversations.ts";
import { describeFailure } from "./failures.ts";
import { given } from "../protocol/given.ts";
import { resolveSettings } from "./settings.ts";
import { switchesOf } from "./switches.ts";
import type { Surroundings } from "./terminal.ts";

export type { ChatFlags } from "./chat/chat-flags.ts";

const HISTORY_FILE = "chat-history";
/** How long a server may take to be reached before a script ends. */
const CONNECT_MS_MAX = 15_000;
/** The journals need no more than this to be quiet. */
const LEAVE_MS_MAX = 1_000;

/** What a chat runs with, whichever kind it is. */
interface Chat {
  readonly flags: ChatFlags;
  readonly settings: ChatSettings;
  readonly surroundings: Surroundings;
  readonly style: Style;
  readonly toolsConfig: ToolsConfig | undefined;
  /** The server's data and our keys: no tool reads them, also when the workspace is the home directory. */
  readonly closed: readonly string[];
  readonly switches: () => Switches;
  /** A line about the chat: to standard error, and onto the screen once there is one. */
  readonly note: (line: string) => void;
  readonly notes: { print: (line: string) => void };
  /** Has the open streams dial again, once there are any. */
  readonly streams: { wake: () => void };
}

export async function chat(flags: ChatFlags, surroundings: Surroundings): Promise<void> {
  const settings = checkChatFlags(flags, surroundings);
  const { dataDir, config } = flags;
  const resolved = resolveSettings(given({ dataDir, config }), surroundings, { isNamedOnly: true });
  const { stdout, stderr, env } = surroundings;
  const notes = {
    print: (line: string): void => {
      stderr.write(`${line}\n`);
    },
  };
  const setUp: Chat = {
    flags,
    settings,
    surroundings,
    style: styleOf(stdout, env),
    toolsConfig: allowing(resolved.tools, settings),
    closed: [resolved.dataDir, dirname(keyDirectory(thisPlatform()))],
    switches: switchesOf({
      flags,
      configFile: config,
      surroundings,
      onNotice: (notice) => notes.print(`holdfast: ${safeLine(notice)}`),
    }),
    note: (line) => notes.print(line),
    notes,
    streams: { wake: () => undefined },
  };
  if (flags.list === true) return listConversations(setUp);
  if (config === undefined && existsSync(join(surroundings.cwd, CONFIG_FILE))) {
    setUp.note(`holdfast: ${CONFIG_FILE} here is not used: name it with --config if you trust it`);
  }
  const prompt = await promptOf(flags, settings);
  if (prompt === undefined && settings.isJson) {
    throw usageError("--json needs a message: give one with --prompt, or pipe it in");
  }
  if (settings.allowsAll && settings.hasTools) {
    setUp.note("holdfast: --yes lets the agent run every tool without asking, as you");
  }
  const link = await linkOf(setUp, resolved.dataDir);
  if (link === undefined) return;
  process.exitCode = prompt === undefined ? await talk(setUp, link) : await answerOnce(setUp, link, prompt);
}

async function listConversations({ settings, surroundings, style, note }: Chat): Promise<void> {
  const client = { directory: settings.workspace, persistence: true, onNotice: note };
  const { conversations, close } = await openConversations({ client });
  try {
    const records = await conversations.list();
    const { stdout, now } = surroundings;
    if (settings.isJson) {
      const rows = records.map(({ conversationId, title, model, createdMs, updatedMs, turn }) => ({
        conversation: conversationId,
        title,
        model,
        created: new Date(createdMs).toISOString(),
        updated: new Date(updatedMs).toISOString(),
        isCutOff: turn !== undefined,
      }));
      stdout.write(`${JSON.stringify(rows, undefined, 2)}\n`);
      return;
    }
    for (const line of listLines(records, now(), style)) stdout.write(`${line}\n`);
  } finally {
    await close();
  }
}

/** The message of the command line, with what is piped in behind it; undefined when a person will type. */
async function promptOf({ prompt }: ChatFlags, { isJson }: ChatSettings): Promise<string | undefined> {
  if (prompt === undefined && !isJson) return undefined;
  const stdin = fstatSync(0);
  const isPiped = !process.stdin.isTTY && (stdin.isFIFO() || stdin.isFile() || stdin.isSocket());
  const piped = isPiped ? (await textOf(process.stdin)).trim() : "";
  const message = [prompt?.trim() ?? "", piped].filter((part) => part !== "").join("\n\n");
  if (message === "") throw usageError("the message is empty: give one with --prompt, or pipe it in");
  return message;
}

/** Undefined when there is no server, which has been said. */
async function linkOf(
  { settings, surroundings, flags, note, streams }: Chat,
  dataDir: string,
): Promise<ServerLink | undefined> {
  const { env, cwd } = surroundings;
  try {
    return await linkServer({
      url: settings.url,
      dataDir,
      config: flags.config,
      env,
      cwd,
      keysCreate: commandsOn(dataDir, surroundings)("keys create"),
      onNews: (line) => note(`holdfast: ${safeLine(line)}`),
      onNotice: (notice) => note(`holdfast: ${safeLine(notice)}`),
      onBack: () => streams.wake(),
    });
  } catch (error) {
    const { text } = describeFailure(error, {
      isDebug: env["HOLDFAST_DEBUG"] === "1",
      command: surroundings.command,
    });
    note(text ?? "holdfast: no server");
    process.exitCode = EXIT_NO_SERVER;
    return undefined;
  }
}

async function answerOnce(setUp: Chat, link: ServerLink, prompt: string): Promise<number> {
  const { settings, surroundings, note } = setUp;
  const session = await openSession({ ...sessionParts(setUp, link), onQuery: unanswerable });
  setUp.streams.wake = () => session.client.wake();
  for (const notice of session.notices) note(`holdfast: ${safeLine(notice)}`);
  let turn: Turn | undefined;
  let interrupts = 0;
  const onSignal = (): void => {
    interrupts++;
    if (interrupts > 1 || turn === undefined) process.exit(EXIT_INTERRUPTED);
    turn.abort().catch((error: unknown) => note(safeLine(String(error))));
  };
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  try {
    return await oneShot({
      settings,
      session,
      link,
      prompt,
      stdout: surroundings.stdout,
      note,
      now: surroundings.now,
      onTurn: (next) => {
        turn = next;
      },
      connectMsMax: CONNECT_MS_MAX,
    });
  } finally {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
    await session.close();
  }
}

/** A script cannot be asked. */
async function unanswerable(): Promise<QueryAnswer> {
  return { case: "unanswerable", value: { reason: "no user can be asked: this is a script" } };
}

function sessionParts(setUp: Chat, link: ServerLink) {
  const { settings, surroundings, toolsConfig, closed, switches, note } = setUp;
  const { env } = surroundings;
  const onNotice = (message: string): void => note(`holdfast: ${message}`);
  return { settings, link, toolsConfig, closed, env, switches, onNotice };
}

async function talk(setUp: Chat, link: ServerLink): Promise<number> {
  const { settings, surroundings, style } = setUp;
  const { stdin, stdout } = process;
  const hasStatusLine = stdin.isTTY && stdout.isTTY;
  const { directory } = scopePaths({ scope: "workspace", directory: settings.workspace });
  const screen = hasStatusLine ? ttyScreen(stdout, style) : plainScreen(stdout, surroundings.stderr);
  const input = hasStatusLine
    ? ttyInput(stdin, stdout, openHistory(join(directory, HISTORY_FILE)), completions)
    : pipedInput(stdin);
  setUp.notes.print = (line) => input.above(() => screen.note(line));
  const interrupt = (): void => talking?.interrupt();
  const print = (line: string): void => {
    stdout.write(`${line}\n`);
  };
  const leaveNow = (): void => talking?.leave();
  const terminate = (): void => talking?.leave(EXIT_INTERRUPTED);
  const asker = newAsker({ input, screen, style, print, onInterrupt: interrupt, onLeave: leaveNow });
  let talking: InteractiveChat | undefined;
  let session: Session | undefined;
  process.on("SIGINT", interrupt).on("SIGTERM", terminate);
  try {
    session = await openSession({
      ...sessionParts(setUp, link),
      ask: (request, signal) => asker.approve(request, signal),
      onQuery: (query: InteractionQuery, signal) => asker.answer(query, signal),
    });
    const { client } = session;
    setUp.streams.wake = () => client.wake();
    for (const line of await greeting(setUp, link, session)) screen.note(line);
    const { now } = surroundings;
    talking = interactiveChat({ settings, session, link, input, screen, style, asker, hasStatusLine, now });
    const exitCode = await talking.run();
    screen.status(undefined);
    if (talking.isBusy)
      screen.note(
        style.dim(
          asker.isWaiting
            ? `The turn waits for your answer; the next \`${surroundings.command} chat\` here asks again.`
            : `The turn continues at the server; the next \`${surroundings.command} chat\` here shows it.`,
        ),
      );
    process.exitCode = exitCode;
    return exitCode;
  } finally {
    input.close();
    process.off("SIGINT", interrupt).off("SIGTERM", terminate);
    await leave(session);
  }
}

/** Lets go of everything; a journal that hangs does not keep the process. */
async function leave(session: Session | undefined): Promise<void> {
  const timer = setTimeout(() => process.exit(), LEAVE_MS_MAX);
  await session?.close();
  clearTimeout(timer);
}

function completions(line: string): readonly string[] {
  return line.startsWith("/") ? COMMAND_NAMES.filter((name) => name.startsWith(line)) : [];
}

async function greeting(
  { settings, style }: Chat,
  link: ServerLink,
  { notices }: Session,
): Promise<readonly string[]> {
  const about = await link.about();
  const standard = about?.models.find(({ isDefault }) => isDefault)?.id;
  const model = settings.model === "" ? (standard ?? "the server's default model") : settings.model;
  const place = `· ${safeLine(model)} · ${link.url} · ${safeLine(settings.workspace)}`;
  return [
    `${style.bold("Holdfast chat")} ${style.dim(place)}`,
    ...[...(about?.troubles ?? []), ...notices].map((notice) => style.yellow(safeLine(notice))),
    style.dim("/help lists the commands; Ctrl-C stops a turn, Ctrl-D leaves."),
  ];
}
