/**
 * The reason of a signal by which a reader leaves a model's call and the call may continue: this host closes, its store has failed, or another
 * connection reads on.
 *
 * The reason of an abort signal decides what becomes of the call (G4, G6). Behind this one a call that the line holds continues without a reader;
 * behind any other, `CANCELLED` among them, it is cancelled at its provider.
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
