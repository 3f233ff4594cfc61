import { z } from 'zod';
import { jsonValue } from './json.ts';

/** Version of the host API that the console offers to plugins. */
export const PLUGIN_HOST_VERSION = '1.0';

/** Id of a plugin or of one of its services: one segment of a path. */
export const pluginId = z
  .string()
  .regex(
    /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$/,
    'must be 1 to 64 letters, digits, dots, dashes or underscores',
  );

/** Path of a file in the folder of a plugin. */
const pluginFile = z
  .string()
  .regex(
    /^(?:[A-Za-z0-9_-][A-Za-z0-9._-]*\/)*[A-Za-z0-9_-][A-Za-z0-9._-]*$/,
    'must be a path of a file in the folder of the plugin',
  );

const permission = z
  .string()
  .regex(
    /^(?:navigation|pages|notifications|service:[A-Za-z0-9._-]+:(?:read|write))$/,
    'must be navigation, pages, notifications, service:<id>:read or service:<id>:write',
  );

/** Manifest of a plugin of the web console, `plugin.json` in its folder. Other members are retained. */
export const pluginManifest = z
  .object({
    id: pluginId.describe('Segment of the paths of the plugin.'),
    name: z.string().min(1, 'must not be empty').max(256),
    version: z.string().min(1, 'must not be empty').max(64),
    entrypoint: pluginFile.describe('ES module in the folder of the plugin.'),
    styles: z.array(pluginFile).max(100).optional().describe('Stylesheets, loaded before the module.'),
    requires: z
      .object({
        hostApi: z.string().max(64).optional().describe('Semver range of the host API.'),
        services: z
          .array(z.object({ id: pluginId, version: z.string().max(64).optional() }))
          .max(100)
          .optional()
          .describe('Services that the plugin calls, configured under `plugins` of the bootstrap file.'),
      })
      .optional(),
    permissions: z.array(permission).max(100).optional().describe('What the plugin uses; everything if omitted.'),
  })
  .catchall(jsonValue)
  .meta({ id: 'PluginManifest' });

export type PluginManifest = z.infer<typeof pluginManifest>;
