import { type Browser, chromium, type Page } from 'playwright-core';
import { BROWSER_ARGUMENTS } from '../fixtures/browser.ts';

/** A user of the identity provider. */
export interface User {
  readonly name: string;
  readonly password: string;
}

/** Starts the browser at a path without access to its own services. */
export function startBrowser(executablePath: string): Promise<Browser> {
  return chromium.launch({
    executablePath,
    args: [...BROWSER_ARGUMENTS],
  });
}

/** Opens an address as a new visitor, signs in at the page of the identity provider, and returns the page after it. */
export async function signIn(browser: Browser, url: string, { name, password }: User): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  await page.goto(url);
  await fillSignIn(page, { name, password });
  return page;
}

/** Fills in the sign-in page, and the consent page if there is one, and waits for the page after it. */
async function fillSignIn(page: Page, { name, password }: User): Promise<void> {
  // oauth2-proxy asks first.
  const start = page.getByRole('button', { name: /^Sign in with/ });
  const username = page.locator('input[name="username"], input[name="login"]');
  await start.or(username).first().waitFor();
  if (await start.isVisible()) await start.click();
  await username.waitFor();
  const provider = new URL(page.url()).origin;
  await username.fill(name);
  await page.locator('input[name="password"]').fill(password);
  await page.locator('[type="submit"]').first().click();
  const back = page.waitForURL((url) => url.origin !== provider);
  const consent = page.locator('#kc-login[name="accept"], button:has-text("Continue")').first();
  const accepted = consent.waitFor().then(
    () => consent.click(),
    () => undefined,
  );
  await Promise.race([back, accepted]);
  await back;
}

/** Signs in at the page of a device login, whose address contains the code, and allows the device. */
export async function enterDeviceCode(browser: Browser, url: string, { name, password }: User): Promise<void> {
  const page = await (await browser.newContext()).newPage();
  await page.goto(url);
  const username = page.locator('input[name="username"], input[name="login"]');
  const next = page.locator('#kc-login[name="accept"], button:has-text("Continue"), [type="submit"]').first();
  // Some providers ask for the code before they ask for the user.
  await username.or(next).first().waitFor();
  if (!(await username.isVisible())) await next.click();
  await username.fill(name);
  await page.locator('input[name="password"]').fill(password);
  await page.locator('[type="submit"]').first().click();
  const done = page.getByText(/Device Login Successful|You can.*close|success/i).first();
  await done.or(next).first().waitFor();
  if (await next.isVisible()) await next.click();
  await done.waitFor();
  await page.context().close();
}
