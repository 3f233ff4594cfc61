import { createServiceKey, hashServiceKey } from '@sluice/contract/service-key';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { validated } from '../files/document.ts';

/** `sluice keys`: keys of service accounts, which the settings of a service have by their hashes. */
export function keysCommand(context: Context): Command {
  return new Command('keys').description('Create keys of service accounts').addCommand(createCommand(context));
}

/** `sluice keys create`: prints a new key. It is stored nowhere, and no service learns it before it is used. */
function createCommand({ terminal, output }: Context): Command {
  return new Command('create')
    .description('Create a key, and print it with the setting that accepts it')
    .argument('<name>', 'Name of the service account')
    .addHelpText(
      'after',
      `
The key is printed once and sent to no service, which needs only its SHA-256. Clients send it as
"Authorization: Bearer slk_...".

Example:
  sluice keys create nightly-report`,
    )
    .action(async (name: string) => {
      await validated(({ identity }) => identity.shape.keys.unwrap().element.shape.name, name, `name "${name}"`);
      const key = createServiceKey();
      const sha256 = hashServiceKey(key);
      const out = output();
      if (out.isStructured) return out.payload({ name, key, sha256 });
      // Names and hashes may look like numbers.
      const { toYaml } = await import('../files/yaml-text.ts');
      out.show({ key, sha256 });
      terminal.stdout.write(
        `\nStore the key now: it is not shown again. Add to the settings of the service:\n\n${toYaml({ identity: { keys: [{ name, sha256: [sha256] }] } })}`,
      );
    });
}
