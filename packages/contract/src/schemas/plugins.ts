import { z } from 'zod';
import { jsonValue } from './json.ts';

/** Manifest of a plugin of the web console (decisions 2.13). */
export const pluginManifest = z
  .object({ id: z.string(), name: z.string(), version: z.string(), entrypoint: z.string() })
  .catchall(jsonValue)
  .meta({ id: 'PluginManifest' });
