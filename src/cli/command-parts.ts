/**
 * What several commands have in common: how a command is named, and the options that say where its data and its settings are.
 */
import { type Command, Option } from "commander";
import { CONFIG_FILE } from "./config-file.ts";

export function subcommand(parent: Command, name: string, about: string): Command {
  return parent.command(name).description(about).helpOption("-h, --help", "print this help");
}

export function dataCommand(parent: Command, name: string, about: string): Command {
  return subcommand(parent, name, about)
    .addOption(dataDirOption())
    .addOption(configOption())
    .addOption(jsonOption());
}

export function dataDirOption(): Option {
  return new Option(
    "--data-dir <directory>",
    "where the server keeps its data (default: in your user data directory)",
  );
}

export function storeOption(): Option {
  return new Option(
    "--store <address>",
    "keep streams in this PostgreSQL, postgres://user@host/database (default: in the data directory)",
  );
}

export function configOption(standard = `${CONFIG_FILE} in the working directory, if it exists`): Option {
  return new Option("--config <file>", `settings file (default: ${standard})`);
}

export function jsonOption(): Option {
  return new Option("--json", "print JSON");
}
