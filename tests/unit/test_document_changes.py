"""A definition and a document into another definition."""

import msgspec
import pytest

from horae.core.compiled import LATE_US, cron_expression, first_due, schedule_of, schedule_type
from horae.core.document import render_definition
from horae.core.duration import format_instant
from horae.core.egress import allow_ranges
from horae.core.errors import Invalid
from horae.core.job import Retry
from horae.core.schedule import next_after
from tests.unit.documents import FULL, JOB_ID, NOW_US, SECOND_US, STANDING, URL, change, create, faults_of, pointers_of

# Past times


@pytest.mark.parametrize("name", ["schedule", "schedule_time", "scheduledTime"])
def test_a_new_one_time_job_needs_a_future_time(name):
    past = format_instant(NOW_US - 33_600 * SECOND_US)

    (fault,) = faults_of({name: past})

    assert fault.pointer == f"/{name}"
    assert fault.detail == f'"{past}" was 9 h 20 m ago. A one-time job needs a future time.'
    assert fault.hint == 'To start it now write "schedule": "@now".'


def test_each_past_time_of_a_list_is_named():
    assert pointers_of({"schedule": ["2020-01-01T00:00:00Z", "@hourly", "2021-01-01T00:00:00Z"]}) == [
        "/schedule/0",
        "/schedule/2",
    ]


def test_a_new_one_time_job_that_is_just_late_is_due_at_once():
    late_us = NOW_US - LATE_US
    job = create({"schedule": format_instant(late_us)})

    assert first_due(job, schedule_of(job, JOB_ID, NOW_US), NOW_US) == late_us
    assert pointers_of({"schedule": format_instant(late_us - 1)}) == ["/schedule"]


def test_beside_other_lines_a_late_time_would_be_lost_and_is_refused():
    assert pointers_of({"schedule": ["@hourly", format_instant(NOW_US - SECOND_US)]}) == ["/schedule/1"]


@pytest.mark.parametrize(
    ("schedule", "due_us"),
    [
        ("@now", NOW_US),
        ("@manual", None),
        ("@every 30s", NOW_US + 30 * SECOND_US),
        ("0 * * * *", 1_795_003_200_000_000),
    ],
)
def test_the_first_due_time(schedule, due_us):
    job = create({"schedule": schedule})

    assert first_due(job, schedule_of(job, JOB_ID, NOW_US), NOW_US) == due_us


def test_a_change_may_bring_a_past_time_and_never_fires_it():
    job = change(create({"schedule": "@hourly"}), {"schedule": "2020-01-01T00:00:00Z"})

    assert next_after(schedule_of(job, JOB_ID, NOW_US), NOW_US) is None


def test_a_change_to_now_runs_now():
    job = change(create({"schedule": "@hourly"}), {"schedule": "@now"})
    due_us = next_after(schedule_of(job, JOB_ID, NOW_US - SECOND_US), NOW_US)

    assert due_us is not None
    assert 0 < due_us - NOW_US <= 1000


def test_now_said_again_does_not_run_again():
    job = create({"schedule": "@now"})

    assert change(job, {"schedule": "@now", "timeout": "1s"}).schedule == ("@now",)


# Changes


def test_only_the_fields_given_change():
    job = create(FULL)

    changed = change(
        job, {"timeout": "1s", "retry": {"max_retries": 1}, "misfire": {"max": 1}, "dst": {"gap": "shift"}}
    )

    assert changed.timeout_us == SECOND_US
    assert changed.retry == msgspec.structs.replace(job.retry, max_retries=1)
    assert changed.misfire == msgspec.structs.replace(job.misfire, max=1)
    assert changed.dst == msgspec.structs.replace(job.dst, gap="shift")
    assert render_definition(changed) | {key: FULL[key] for key in ("timeout", "retry", "misfire", "dst")} == FULL


@pytest.mark.parametrize("field", sorted(FULL.keys() - {"type", "target"}))
def test_null_resets_a_field(field):
    default = render_definition(create({"type": "http", "target": URL}))
    if field == "schedule":
        default["schedule"] = None  # `after` is left

    changed = render_definition(change(create(FULL), {field: None}))

    assert changed[field] == default[field]
    assert {key: changed[key] for key in changed if key != field} == {key: FULL[key] for key in FULL if key != field}


def test_null_resets_one_key_of_a_group():
    assert change(create(FULL), {"retry": {"delay": None}}).retry.delay_us == Retry().delay_us
    assert change(create(FULL), {"max_retries": None}).retry.max_retries == Retry().max_retries


def test_a_change_names_its_faults_where_they_were_written():
    with pytest.raises(Invalid) as caught:
        change(
            create(FULL), {"cron": "61 * * * *", "maxRetries": -1, "state": "paused", "end_at": "2020-01-01T00:00:00Z"}
        )

    assert [fault.pointer for fault in caught.value.faults] == ["/state", "/maxRetries", "/end_at", "/cron"]


@pytest.mark.parametrize("document", [{}, FULL, {"schedule": "@hourly"}, {"after": "load"}, {"target": URL}])
def test_an_answer_sent_back_changes_nothing(document):
    job = create(document)
    schedule = schedule_of(job, JOB_ID, NOW_US)
    answer = render_definition(job) | {
        "job_id": JOB_ID,
        "tenant": "default",
        "status": "SCHEDULED",
        "schedule_type": schedule_type(job, schedule),
        "cron_expression": cron_expression(job),
        "max_retries": job.retry.max_retries,
        "next_fire_time": None,
        "last_run_status": None,
        "version": 3,
        "created_at": format_instant(STANDING.created_us),
        "updated_at": format_instant(NOW_US),
    }

    assert change(job, answer) == job


@pytest.mark.parametrize(
    ("edit", "texts"),
    [
        ({"schedule": "@every 5m"}, ("@every 5m",)),
        ({"schedule": "0 10 * * *"}, ("0 10 * * *",)),
        ({"schedule": "@manual"}, ()),
        ({"cron_expression": "0 10 * * *"}, ("0 10 * * *",)),
        ({"cron": "0 10 * * *"}, ("0 10 * * *",)),
    ],
)
def test_an_answer_may_be_edited_at_either_name_and_sent_back(edit, texts):
    job = create({"schedule": "0 9 * * *"})
    answer = render_definition(job) | {"schedule_type": "CRON", "cron_expression": "0 9 * * *", "max_retries": 3}

    assert change(job, answer | edit).schedule == texts


def test_an_edited_answer_may_still_contradict_itself():
    job = create({"schedule": "0 9 * * *"})

    with pytest.raises(Invalid, match="disagree"):
        change(job, {"schedule": "0 10 * * *", "cron_expression": "0 11 * * *"})


def test_retries_may_be_edited_at_either_name():
    job = create({})
    answer = render_definition(job) | {"max_retries": 3}

    assert change(job, answer | {"max_retries": 9}).retry.max_retries == 9
    assert change(job, answer | {"retry": {"max_retries": 9}}).retry.max_retries == 9


def test_a_schedule_type_alone_changes_the_schedule():
    job = create({"schedule": "0 9 * * *"})

    assert change(job, {"schedule_type": "CRON"}) == job
    assert change(job, {"schedule_type": "MANUAL"}).schedule == ()
    with pytest.raises(Invalid, match="schedule_time"):
        change(job, {"schedule_type": "FUTURE"})


def test_a_callback_url_changes_the_url_alone():
    job = create({"target": {"url": URL, "method": "PUT"}})

    changed = change(job, {"callback_url": "https://example.com/other"})

    assert changed.target == job.target | {"url": "https://example.com/other"}


def test_a_target_is_replaced_as_a_whole():
    job = create({"target": {"url": URL, "method": "PUT"}})

    assert change(job, {"target": {"url": URL}}).target["method"] == "POST"
    assert change(job, {"target": URL + "2"}).target["url"] == URL + "2"


def test_a_plain_url_makes_any_job_an_http_job():
    assert change(create({"type": "noop"}), {"target": URL}).type == "http"


def test_another_type_needs_its_own_target():
    job = create({"target": URL})

    with pytest.raises(Invalid, match=r"target\.command"):
        change(job, {"type": "shell"})
    assert change(job, {"type": "shell", "target": {"command": "true"}}).target == {"command": "true"}
    assert change(job, {"type": "custom"}).target == {}
    assert change(job, {"type": None, "target": None}).type == "custom"
    assert change(job, {"type": "HTTP_REQUEST"}) == job
    assert change(job, {"type": None}) == job


def test_a_target_told_in_the_payload_follows_it():
    job = create({"type": "http", "payload": {"url": URL}})

    assert change(job, {"payload": {"url": URL + "2"}}).target["url"] == URL + "2"
    assert change(job, {"payload": {"rows": 5}}).target["url"] == URL


def test_a_target_told_elsewhere_does_not_follow_the_payload():
    job = create({"target": URL, "payload": {"url": "data"}})

    assert change(job, {"payload": {"url": URL + "2"}}).target["url"] == URL


def test_an_unchanged_target_is_not_judged_again():
    job = create({"target": "http://127.0.0.1:9000/"}, allow=allow_ranges("127.0.0.0/8"))

    assert change(job, render_definition(job) | {"timeout": "1s"}).target == job.target


# Compiled schedules


def test_jobs_that_share_a_line_share_one_schedule():
    one, other = create({"schedule": "0 9 * * *"}), create({"name": "other", "schedule": "0 9 * * *"})

    assert schedule_of(one, "a", 1) is schedule_of(other, "b", 2)
    for difference in (
        {"timezone": "Asia/Tokyo"},
        {"dst": {"gap": "skip"}},
        {"start_at": "2030-01-01T00:00:00Z"},
        {"calendar": {"exclude": ["2026-12-25"]}},
    ):
        assert schedule_of(change(one, difference), "a", 1) is not schedule_of(one, "a", 1)


def test_an_interval_counts_from_creation_or_start():
    job = create({"schedule": "@every 60s"})

    assert next_after(schedule_of(job, "a", 7), 7) == 7 + 60 * SECOND_US
    assert next_after(schedule_of(job, "b", 9), 9) == 9 + 60 * SECOND_US

    started = change(job, {"start_at": "2030-01-01T00:00:30Z"})
    assert (next_after(schedule_of(started, "a", 7), 7) or 0) // SECOND_US % 60 == 30


def test_now_with_a_start_waits_for_it_and_one_without_does_not():
    later = create({"schedule": "@now", "start_at": "2030-01-01T00:00:00Z"})
    earlier = create({"schedule": "@now", "start_at": "2020-01-01T00:00:00Z"})

    assert first_due(later, schedule_of(later, JOB_ID, NOW_US), NOW_US) == later.start_us
    assert first_due(earlier, schedule_of(earlier, JOB_ID, NOW_US), NOW_US) == NOW_US


def test_a_hashed_line_is_each_jobs_own_and_always_the_same():
    job = create({"schedule": "H H * * *"})
    times = {next_after(schedule_of(job, f"job-{number}", 0), NOW_US) for number in range(50)}

    assert len(times) > 25
    assert schedule_of(job, "a", 1) is schedule_of(job, "a", 2)


def test_a_letter_in_a_name_is_no_hash():
    job = create({"schedule": "0 9 * * THU"})

    assert schedule_of(job, "a", 1) is schedule_of(job, "b", 1)
