import manifest from '../../package.json' with { type: 'json' };

/** Version of the service, from its package.json. */
export const VERSION: string = manifest.version;
