import { corsOrigin } from '../addresses.ts';
import { InvalidSettingError, type Setting } from '../setting.ts';
import { settingText } from './setting-text.ts';

/** A name that no origin has, in the place of the `*` while the rest is looked at. */
const ANY = 'any-subdomain';

const allowedOrigin: Setting<string> = {
  accepts: '*, an origin such as https://console.example.com, or its subdomains: https://*.example.com',
  parse: (text) => {
    const subdomains = /^[a-z][a-z\d+.-]*:\/\/\*\./i.test(text);
    if (text !== '*' && text.replace('://*.', '://').includes('*'))
      throw new InvalidSettingError('has a * in a place of its own');
    return subdomains ? corsOrigin.parse(text.replace('*', ANY)).replace(ANY, '*') : corsOrigin.parse(text);
  },
};

/** An entry of `allow_origins` (decisions 1.4, "cors"), spelled as browsers spell origins. */
export const origin = settingText(allowedOrigin);
