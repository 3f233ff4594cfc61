import type { Command } from 'commander';
import { Failure } from '../failure.ts';

/** The name of what a command is about, as an option. */
export interface NameOption {
  readonly name?: string;
}

/** Lets a command take the name of what it is about as an argument or as `--name`. */
export function addNameOption(command: Command, kind: string): Command {
  return command
    .argument(`[${kind}]`, `Name of the ${kind}`)
    .option(`-n, --name <${kind}>`, `Name of the ${kind}, instead of the argument`);
}

/** The name that was given. Throws {@link Failure} for none and for two. */
export function requireName(argument: string | undefined, { name }: NameOption, kind: string): string {
  if (argument !== undefined && name !== undefined) throw new Failure(`the ${kind} is named twice: leave out --name`);
  const given = argument ?? name;
  if (given === undefined) throw new Failure(`which ${kind}? give its name`);
  return given;
}
