import { type Command, Option } from 'commander';

/** Adds the options that say what there shall be. */
export function addStateOptions(command: Command): Command {
  return command
    .addOption(
      new Option('-f, --file <file>', 'state file, YAML or JSON; - is standard input; may be given several times')
        .argParser((file: string, before: readonly string[] = []) => [...before, file])
        .makeOptionMandatory(),
    )
    .addOption(new Option('--prune', 'what the files do not name goes, in the sections that they have'));
}
