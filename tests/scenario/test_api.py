"""smoke"""
async def test_smoke(api, world, clock):
    made = await api.post("jobs", json={"name": "daily", "schedule": "0 9 * * *", "type": "noop"})
    print(made.status_code, made.headers, made.json())
    for path in ["jobs","jobs/daily","jobs/daily/status","jobs/daily/runs","jobs/daily/versions","jobs/daily/explain","runs","dead-letters","workers"]:
        r = await api.get(path); print(path, r.status_code, r.text[:300])
    r = await api.post("jobs/daily/run"); print(r.status_code, r.text)
    r = await api.get("runs/"+r.json()["run_id"]); print(r.text)
    r = await api.post("schedules/preview", json={"schedule":"30 2 * * *","timezone":"Europe/Berlin"}); print(r.text)
    r = await api.post("jobs", content=b'{"a":1,"a":2}'); print(r.status_code, r.text)
    r = await api.get("jobs?limt=3"); print(r.status_code, r.text)
    r = await api.delete("jobs"); print(r.status_code, r.text, r.headers)
    r = await api.get("nope"); print(r.status_code, r.text, r.headers)
    for p in ["/healthz","/readyz","/metrics","/openapi.json"]:
        r = await api.get("http://127.0.0.1:8700"+p); print(p, r.status_code, r.text[:300])
