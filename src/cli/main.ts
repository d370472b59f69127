#!/usr/bin/env node
/**
 * Where the `holdfast` command begins: before anything else is loaded, Node learns where compiled code is kept.
 */
import process from "node:process";
import { findHomeDirectory } from "../client-node/scope.ts";
import { keepCompiledCode } from "./compiled-code.ts";

keepCompiledCode({ env: process.env, platform: process.platform, home: findHomeDirectory() });
await import("./command.ts");
