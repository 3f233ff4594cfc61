import manifest from '../../package.json' with { type: 'json' };

/** Version of the service, from its package.json. */
export const VERSION: string = manifest.version;

/** `User-Agent` of requests to upstreams and models: firewalls reject requests without one. */
export const USER_AGENT = `sluice/${VERSION}`;
