/**
 * Why a run ends that another one on this machine may continue: this host closes, or its store has failed.
 *
 * The reason of an abort signal decides what becomes of a model's call (G4, G6). Behind this one the call continues without a reader; behind any
 * other it is cancelled at its provider.
 */
import { HoldfastError } from "./errors.ts";

export class LetGo extends HoldfastError {
  constructor(message: string) {
    super("unavailable", message);
    this.name = "LetGo";
  }
}

/** The user has stopped the turn. Made once: the platform's own reason costs a stack. */
export const CANCELLED = new Error("the user has cancelled the turn");
